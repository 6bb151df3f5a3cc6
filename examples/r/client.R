# A client of a dpmpc collection in R: makes a sealed report of one row (docs/report-format.md), and sends it to a door.
#
#   apt install r-base-core r-cran-openssl r-cran-jsonlite r-cran-curl gcc
#   gcc -O2 -shared -fPIC -fwrapv -ffp-contract=off -I csrc -o report.so examples/r/report.c -lm
#   Rscript examples/r/client.R https://door.example DIGEST age=44.5 income=61
#
# DIGEST are the 64 digits that whoever runs the study has published: they name the collection, its bounds and its servers'
# keys. The arithmetic is csrc/report.c, random bytes, AES, X25519 and SHA-256 are OpenSSL's. R keeps copies of what it
# computes with: run this where nobody else reads the process's memory.

library(openssl)

KINDS <- c("rows", "second-moments", "proved-rows", "proved-second-moments")
DRAW_AGAIN <- 2L # of report_begin and report_end, where 0 is done

bytes_of <- function(digits) as.raw(strtoi(substring(digits, seq(1, nchar(digits), 2), seq(2, nchar(digits), 2)), 16L))
digits_of <- function(bytes) paste(as.character(bytes), collapse = "")
little_endian <- function(number, length) as.raw((number %/% 256^(0:(length - 1))) %% 256)
sha256_of <- function(bytes) as.raw(unclass(sha256(bytes)))
hmac_of <- function(key, bytes) as.raw(unclass(sha256(bytes, key = if (length(key)) key else raw(32))))
stream_of <- function(key, length) as.raw(aes_ctr_encrypt(raw(length), key, iv = raw(16)))

# A label, a zero byte, each part after its length.
framed <- function(label, ...) {
  parts <- lapply(list(...), function(part) c(little_endian(length(part), 8), part))
  c(charToRaw(label), as.raw(0), unlist(parts))
}

# HPKE (RFC 9180), base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM; enc, ciphertext and tag.
seal <- function(public, info, plain, ephemeral = x25519_keygen()) {
  kem <- c(charToRaw("KEM"), as.raw(c(0, 0x20)))
  suite <- c(charToRaw("HPKE"), as.raw(c(0, 0x20, 0, 1, 0, 1)))
  extract <- function(id, salt, label, secret) hmac_of(salt, c(charToRaw("HPKE-v1"), id, charToRaw(label), secret))
  expand <- function(id, key, label, context, length) {
    hmac_of(key, c(as.raw(c(0, length)), charToRaw("HPKE-v1"), id, charToRaw(label), context, as.raw(1)))[1:length]
  }
  enc <- as.raw(as.list(as.list(ephemeral)$pubkey)$data)
  exchanged <- extract(kem, raw(), "eae_prk", x25519_diffie_hellman(ephemeral, read_x25519_pubkey(public)))
  shared <- expand(kem, exchanged, "shared_secret", c(enc, public), 32)
  context <- c(as.raw(0), extract(suite, raw(), "psk_id_hash", raw()), extract(suite, raw(), "info_hash", info))
  secret <- extract(suite, shared, "secret", raw())
  key <- expand(suite, secret, "key", context, 16)
  iv <- expand(suite, secret, "base_nonce", context, 12)
  cipher <- function(text, block) as.raw(aes_ctr_encrypt(text, key, iv = c(iv, raw(3), as.raw(block))))
  sealed <- cipher(plain, 2)
  zero <- as.raw(aes_ctr_encrypt(raw(16), key, iv = raw(16)))
  tag <- .C("r_gcm_tag", zero, sealed, length(sealed), cipher(raw(16), 1), tag = raw(16))$tag
  c(enc, sealed, tag)
}

# The collection in the body of GET /v1/collection, which has to have this digest.
open_collection <- function(body, digest) {
  if (digits_of(sha256_of(body)) != digest) stop("digest: ", digits_of(sha256_of(body)), " received, ", digest, " expected")
  file <- jsonlite::fromJSON(rawToChar(body), simplifyVector = FALSE)
  task <- file$task
  kind <- match(task$statistic$name, KINDS)
  requires <- list(
    "format 4" = file$format == 4, "a sum of rows or of second moments" = !is.na(kind),
    "no radius" = is.null(task$statistic$radius), "shares that add up" = task$sharing == "additive",
    "noise by servers" = task$noising$by == "servers", "one copy of it" = (task$noising$copies %||% "one") == "one",
    "values outside clipped" = (task$schema$outside %||% "clip") == "clip",
    "no roster" = !isTRUE(file$authenticated)
  )
  missing <- names(requires)[!unlist(requires)]
  if (length(missing)) stop("collection: ", paste(missing, collapse = ", "), " expected by this client")
  keys <- lapply(file$servers, function(server) {
    last <- server$keys[[length(server$keys)]]
    if (last$suite != "x25519") stop("suite: ", last$suite, " received, x25519 expected by this client")
    list(number = last$number, public = bytes_of(last$public))
  })
  field <- function(name) vapply(task$schema$columns, function(column) column[[name]], if (name == "name") "" else 0)
  facts <- list(kind - 1L, length(task$schema$columns), as.integer(task$encoding$fractional_bits), length(keys))
  room <- do.call(.C, c("r_plan_bytes", facts, list(bytes = 0L)))$bytes
  if (room == 0) stop("task: there are no reports of this size")
  made <- do.call(.C, c("r_plan", facts, list(bytes_of(digest), plan = raw(room), sizes = integer(6))))
  list(
    digest = digest, names = field("name"), lower = field("lower"), upper = field("upper"), keys = keys, plan = made$plan,
    sizes = as.list(setNames(made$sizes, c("work", "drawn", "stream", "seed_stream", "keyed", "last"))), closes = file$closes
  )
}

`%||%` <- function(value, default) if (is.null(value)) default else value

# What each server gets of a row, in this order.
payloads_of <- function(collection, row, id, draw) {
  size <- collection$sizes
  others <- length(collection$keys) - 1
  z <- .C("r_normalise", length(row), row, collection$lower, collection$upper, z = row, result = 0L)
  if (z$result != 0) stop("row: a number that is not finite received")
  repeat {
    drawn <- draw(size$drawn)
    keys <- .C("r_share_keys", collection$plan, drawn, keys = raw(16 * others))$keys
    streams <- unlist(lapply(seq_len(others), function(j) stream_of(keys[(16 * j - 15):(16 * j)], size$stream)))
    begun <- .C("r_begin", collection$plan, id, z$z, drawn, streams = streams, work = raw(size$work), seed = raw(32), result = 0L)
    if (begun$result == DRAW_AGAIN) next
    if (begun$result != 0) stop("row: numbers received of which no report can be made")
    seed_stream <- if (size$seed_stream) stream_of(begun$seed, size$seed_stream) else raw(8)
    ended <- .C("r_end", collection$plan, drawn, begun$streams, seed_stream, begun$work,
      payloads = raw(others * size$keyed + size$last), result = 0L)
    if (ended$result != DRAW_AGAIN) break
  }
  last <- c(rep(size$keyed, others), size$last)
  lapply(seq_along(last), function(j) ended$payloads[(sum(last[seq_len(j - 1)]) + 1):sum(last[seq_len(j)])])
}

# Id, secret and body of a report of numbers by the names of the columns. Keep all of it until it is acknowledged.
make_report <- function(collection, row, draw = rand_bytes) {
  if (!setequal(names(row), collection$names)) stop("row: ", toString(names(row)), " given, ", toString(collection$names), " expected")
  row <- as.double(row[collection$names])
  digest <- bytes_of(collection$digest)
  secret <- draw(32)
  id <- sha256_of(framed("dpmpc v2 report id", digest, secret))[1:16]
  payloads <- payloads_of(collection, row, id, draw)
  records <- lapply(seq_along(payloads), function(j) {
    key <- collection$keys[[j]]
    info <- framed("dpmpc v2 record", digest, as.raw(j - 1), as.raw(key$number), id)
    c(as.raw(key$number), seal(key$public, info, payloads[[j]]))
  })
  list(id = id, secret = secret, body = c(as.raw(2), id, unlist(records)))
}

fetch_collection <- function(door, digest) {
  open_collection(curl::curl_fetch_memory(paste0(door, "/v1/collection"))$content, digest)
}

# TRUE where every server has the report; otherwise send the same bytes again, to another door as well.
send_report <- function(collection, report, door) {
  handle <- curl::new_handle(post = TRUE, postfieldsize = length(report$body), postfields = report$body)
  answer <- curl::curl_fetch_memory(paste0(door, "/v2/collections/", collection$digest, "/reports"), handle)
  if (answer$status_code == 200) return(TRUE)
  if (answer$status_code == 202 || answer$status_code >= 500 || answer$status_code == 429) return(FALSE)
  stop("report: refused (", answer$status_code, "): ", rawToChar(answer$content))
}

# The report in this file, or a new one, which is written there before it is sent: whoever runs the program again after it
# was interrupted sends the same bytes, and counts once.
kept_report <- function(file, collection, row) {
  if (file.exists(file)) {
    report <- readRDS(file)
    if (is.null(report$body)) stop(file, ": your report is at every server already")
    return(report)
  }
  Sys.umask("077")
  report <- make_report(collection, row)
  saveRDS(report, file)
  report
}

if (sys.nframe() == 0L) {
  given <- commandArgs(trailingOnly = TRUE)
  if (length(given) < 3) stop("usage: Rscript client.R DOOR DIGEST name=number ..")
  dyn.load(Sys.getenv("DPMPC_REPORT", "./report.so"))
  pairs <- strsplit(given[-(1:2)], "=(?=[^=]*$)", perl = TRUE)
  row <- setNames(as.double(vapply(pairs, `[`, "", 2)), vapply(pairs, `[`, "", 1))
  collection <- fetch_collection(given[1], given[2])
  file <- paste0("report-", substr(given[2], 1, 16), ".rds")
  report <- kept_report(file, collection, row)
  for (attempt in 0:7) {
    if (attempt) Sys.sleep(min(2^attempt, 30))
    if (send_report(collection, report, given[1])) {
      saveRDS(report[c("id", "secret")], file)
      cat("every server has report ", digits_of(report$id), ", says the door\nits secret, with which it can be withdrawn, is in ", file, "\n", sep = "")
      quit(status = 0)
    }
  }
  stop("not every server has the report yet: run this again before ", collection$closes, ", which sends the same bytes")
}
