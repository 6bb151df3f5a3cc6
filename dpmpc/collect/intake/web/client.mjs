// A client of a dpmpc collection, for browsers, phones and node: makes one sealed report of a row and sends it.
//
// report.wasm (csrc/report.c) has the arithmetic and SHA-256, the platform's WebCrypto random bytes, AES and X25519: nothing
// of a row or a key decides which address is used or which branch is taken, but where codebook.mjs codes answers. The bytes
// are those of dpmpc.collect.upload.sealing.
//
// Promised: a report only for the collection whose digest was given; refusals are errors that name what was expected; a row
// is in no address, no header and no storage. Not promised: that whoever serves this file serves what was published.

import { Cells, Codebook } from './codebook.mjs';

const subtle = globalThis.crypto.subtle;
const KINDS = ['rows', 'second-moments', 'proved-rows', 'proved-second-moments', 'proved-cell-counts'];
const [WORK, DRAWN, STREAM, SEED_STREAM, KEYED_PAYLOAD, LAST_PAYLOAD] = [1, 2, 3, 4, 5, 6]; // of report_size
const [DONE, DRAW_AGAIN] = [0, 2]; // of report_begin and report_end
const [KEY, ID, DIGEST, SECRET, TICKET] = [16, 16, 32, 32, 32];
const PAGE = 1 << 16; // of WebAssembly's memory
const FINAL = [400, 401, 403, 404, 409, 410]; // answers that the same bytes get again
const PAUSE = 1000, LONGEST_PAUSE = 30_000, PATIENCE = 30_000; // milliseconds; until a door has answered in full
const WITHDRAWN = ['withdrawn now', 'was withdrawn'], WORDS = [...WITHDRAWN, 'never here', 'too late']; // of a server, of itself
const NONE = new Uint8Array(0);
const P256_KEY = unhex('3059301306072a8648ce3d020106082a8648ce3d030107034200'); // what begins a public key in a certificate
const ECDSA = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** The collection is not one that this client can contribute to, or not the one that was meant. */
export class CollectionError extends Error {
  name = 'CollectionError';
}

/** Not enough servers have confirmed what was sent; `final` where the same bytes would be refused again. */
export class SendError extends Error {
  name = 'SendError';
  constructor(message, status, servers) {
    super(message);
    this.status = status;
    this.servers = servers;
    this.final = false;
  }
}

/**
 * What is known of a withdrawal by the words of servers, each of itself: `dpmpc.collect.terms.withdrawal_verdict`. `needed` of
 * them, one with additive shares, have to confirm it; whoever gave no answer has no word here.
 */
export function verdict(servers, needed, words) {
  const count = wanted => words.filter(word => wanted.includes(word)).length;
  if (count(WITHDRAWN) >= needed) return 'withdrawn';
  if (servers - count(['too late']) < needed) return 'too late';
  return count(['never here']) === servers ? 'never here' : 'not confirmed';
}

/** Return the status and the JSON of an answer that is there, as a whole, in time; whatever else there is, is an error. */
async function ask(address, { signal, patience = PATIENCE, ...options }) {
  const limit = AbortSignal.timeout(patience), either = signal ? AbortSignal.any([signal, limit]) : limit;
  const answer = await fetch(address, { ...options, signal: either, credentials: 'omit', referrerPolicy: 'no-referrer' });
  try {
    return { status: answer.status, said: await answer.json() };
  } catch (error) {
    throw Object.assign(new Error(error.message), { status: answer.status });
  }
}

const text = string => new TextEncoder().encode(string);
export const hex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');

export function unhex(digits) {
  if (typeof digits !== 'string' || !/^(?:[0-9a-f]{2})*$/.test(digits)) {
    throw new TypeError(`${digits}: pairs of hexadecimal digits expected`);
  }
  return Uint8Array.from(digits.match(/../g) ?? [], pair => parseInt(pair, 16));
}

function join(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function littleEndian(number, length) {
  return Uint8Array.from({ length }, (_, place) => Math.floor(number / 256 ** place) % 256);
}

/** `dpmpc.linear.proving.joint.framed`: a label, a zero byte, each part after its length. */
function framed(label, ...parts) {
  return join(text(label), [0], ...parts.flatMap(part => [littleEndian(part.length, 8), part]));
}

function random(length) {
  return globalThis.crypto.getRandomValues(new Uint8Array(length));
}

/** The key stream of AES in counter mode of zeros. */
async function keyStream(key, length) {
  const imported = await subtle.importKey('raw', key, 'AES-CTR', false, ['encrypt']);
  const counter = { name: 'AES-CTR', counter: new Uint8Array(16), length: 64 };
  return new Uint8Array(await subtle.encrypt(counter, imported, new Uint8Array(length)));
}

/** The functions of report.wasm, and its memory. */
class Arithmetic {
  constructor(module) {
    this.calls = new WebAssembly.Instance(module).exports;
    this.free = this.calls.__heap_base.value;
  }

  /** Return where `length` bytes lie that nobody else uses, at a multiple of 8. */
  take(length) {
    const at = Math.ceil(this.free / 8) * 8, missing = at + length - this.calls.memory.buffer.byteLength;
    if (missing > 0) this.calls.memory.grow(Math.ceil(missing / PAGE));
    this.free = at + length;
    return at;
  }

  /** The bytes at a place; a later `take` may detach them. */
  view(at, length) {
    return new Uint8Array(this.calls.memory.buffer, at, length);
  }

  put(bytes) {
    const at = this.take(bytes.length);
    this.view(at, bytes.length).set(bytes);
    return at;
  }

  /** Call `job`, which does not wait, then overwrite and free what it took. */
  scoped(job) {
    const before = this.free;
    try {
      return job();
    } finally {
      this.view(before, this.free - before).fill(0);
      this.free = before;
    }
  }

  sha256(bytes) {
    return this.scoped(() => {
      const given = this.put(bytes), digest = this.take(DIGEST);
      this.calls.report_sha256(given, bytes.length, digest);
      return this.view(digest, DIGEST).slice();
    });
  }

  hmac(key, bytes) {
    return this.scoped(() => {
      const secret = this.put(key), given = this.put(bytes), mac = this.take(DIGEST);
      if (this.calls.report_hmac(secret, key.length, given, bytes.length, mac)) throw new RangeError('key: too long');
      return this.view(mac, DIGEST).slice();
    });
  }

  /** HKDF-SHA256 (RFC 5869), of at most 32 bytes. */
  expand(key, info, length) {
    return this.hmac(key, join(info, [1])).slice(0, length);
  }

  extract(salt, secret) {
    return this.hmac(salt, secret);
  }
}

const KEM = join(text('KEM'), [0, 0x20]), SUITE = join(text('HPKE'), [0, 0x20, 0, 1, 0, 1]);

/**
 * HPKE (RFC 9180), base mode, one message: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM; enc | ciphertext.
 * It is exported for the tests of the standard's known answers.
 */
export async function seal(module, publicKey, info, plain, associated = NONE) {
  const w = module instanceof Arithmetic ? module : new Arithmetic(module);
  const extract = (suite, salt, label, secret) => w.extract(salt, join(text('HPKE-v1'), suite, text(label), secret));
  const expand = (suite, key, label, context, length) =>
    w.expand(key, join([0, length], text('HPKE-v1'), suite, text(label), context), length);

  const pair = await subtle.generateKey('X25519', false, ['deriveBits']);
  const enc = new Uint8Array(await subtle.exportKey('raw', pair.publicKey));
  const receiver = await subtle.importKey('raw', publicKey, 'X25519', true, []);
  const exchanged = new Uint8Array(await subtle.deriveBits({ name: 'X25519', public: receiver }, pair.privateKey, 256));
  const shared = expand(KEM, extract(KEM, NONE, 'eae_prk', exchanged), 'shared_secret', join(enc, publicKey), 32);
  const context = join([0], extract(SUITE, NONE, 'psk_id_hash', NONE), extract(SUITE, NONE, 'info_hash', info));
  const secret = extract(SUITE, shared, 'secret', NONE);
  const key = await subtle.importKey('raw', expand(SUITE, secret, 'key', context, 16), 'AES-GCM', false, ['encrypt']);
  const iv = expand(SUITE, secret, 'base_nonce', context, 12);
  const sealing = { name: 'AES-GCM', iv, additionalData: associated };
  return join(enc, new Uint8Array(await subtle.encrypt(sealing, key, plain)));
}

/** floor(sqrt(n)) of a BigInt. */
function root(n) {
  let x = 1n << BigInt(Math.ceil(n.toString(2).length / 2));
  for (;;) {
    const next = (x + n / x) >> 1n;
    if (next >= x) return x;
    x = next;
  }
}

/** A positive double as [m, e] with m 2^e. */
function exactly(number) {
  const bits = new DataView(new Float64Array([number]).buffer).getBigUint64(0, true);
  const exponent = Number(bits >> 52n), fraction = bits & ((1n << 52n) - 1n);
  return exponent ? [fraction | (1n << 52n), exponent - 1075] : [fraction, -1074];
}

/** C^2 of `dpmpc.linear.proving.statements.widened_ball`, of public numbers; -1 where the ball holds the whole box. */
function widenedBall(bits, radius, columns) {
  const scale = (1n << BigInt(bits)) - 1n, d = BigInt(columns), [mantissa, exponent] = exactly(radius);
  const half = root(d << 120n) + 1n, power = exponent - 40; // over 2^61; of scale radius (1 + 2^-40)
  const reach = scale * mantissa * ((1n << 40n) + 1n), below = BigInt(Math.max(61, -power));
  const sum = (reach << (below + BigInt(power))) + (half << (below - 61n));
  const squared = (sum * sum) >> (2n * below);
  return squared >= d * (scale + 1n) ** 2n ? -1n : squared;
}

/** The public key in a certificate (PEM) on P-256, which the task file names. */
async function keyOf(pem) {
  const der = Uint8Array.from(atob(pem.replace(/-----[^-]+-----|\s/g, '')), character => character.charCodeAt(0));
  const at = der.findIndex((_, place) => P256_KEY.every((byte, offset) => der[place + offset] === byte));
  if (at < 0) throw new CollectionError('certificate: one on the curve P-256 expected');
  return subtle.importKey('spki', der.slice(at, at + P256_KEY.length + 65), ECDSA, false, ['verify']);
}

/** The two numbers of an ECDSA signature in DER, 32 bytes each, as WebCrypto reads them; NONE if it is none. */
function rawSignature(der) {
  const parts = [];
  let at = 2;
  if (der[0] !== 0x30 || der[1] !== der.length - 2) return NONE;
  while (parts.length < 2) {
    const length = der[at + 1], number = der.slice(at + 2, at + 2 + length);
    if (der[at] !== 2 || number.length !== length || !length || length > 33 || (length === 33 && number[0])) return NONE;
    parts.push(join(new Uint8Array(Math.max(0, 32 - length)), number.slice(Math.max(0, length - 32))));
    at += 2 + length;
  }
  return at === der.length ? join(...parts) : NONE;
}

/** What epsilon and delta mean, as dpmpc/privacy/in_words.py says it; numbers are rounded so that it is true. */
function boundInWords(epsilon, delta, own) {
  const inDigits = (number, digits = 10) => number.toLocaleString('en', { maximumSignificantDigits: digits });
  const up = 10 ** (2 - Math.floor(epsilon / Math.LN10)), exponent = inDigits(Math.ceil(100 * epsilon) / 100, 6);
  const factor = epsilon > 20 ? `e^${exponent}` : inDigits(Math.ceil(Math.exp(epsilon) * up) / up);
  const plus = delta ? `, plus 1 in ${Math.floor((1 + 2 ** -50) / delta).toLocaleString('en')}` : '';
  const right = Math.ceil(1000 * Math.min(1, (1 + delta * Math.exp(-epsilon)) / (1 + Math.exp(-epsilon)))) / 10;
  return `With ${own}, anything that is published has at most ${factor} times the probability that it has with any other answers${plus}. ` +
    `So nobody who thinks two of them equally likely guesses the right one with a probability above ${right} %, whatever else they know.`;
}

function requireEqual(name, found, expected) {
  if (!expected.includes(found)) {
    throw new CollectionError(`${name}: ${JSON.stringify(found)} received, ${expected.join(' or ')} expected by this client`);
  }
}

/** A client of one collection. */
export class Client {
  #w;
  #plan;
  #codebook;
  #cells; // where people are counted
  #at = {}; // where things lie that one report is made of, by their names
  #lengths;
  #start;
  #end;
  #making = Promise.resolve();

  /**
   * @param task the body of GET /v1/collection, as it came
   * @param digest 64 hexadecimal digits, from somebody whom the person trusts
   * @param wasm report.wasm
   */
  static async open(task, digest, wasm) {
    const module = wasm instanceof WebAssembly.Module ? wasm : await WebAssembly.compile(wasm);
    return new Client(new Uint8Array(task), digest, module);
  }

  constructor(task, digest, module) {
    this.#w = new Arithmetic(module);
    this.digest = this.#w.sha256(task);
    if (hex(this.digest) !== digest) {
      throw new CollectionError(`digest: ${hex(this.digest)} received, ${digest} expected: this is another collection`);
    }
    this.#read(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(task)));
  }

  #read(file) {
    requireEqual('format', file.format, [4]);
    const { statistic, encoding, schema, trust, noising, sharing } = file.task;
    requireEqual('statistic', statistic.name, KINDS);
    const proved = statistic.name.startsWith('proved-');
    requireEqual('ring', encoding.ring, [proved ? 'mersenne61' : 'ring64']);
    requireEqual('sharing', sharing, ['additive']);
    requireEqual('noise', noising.by, ['servers']);
    requireEqual('copies', noising.copies ?? 'one', ['one']);
    requireEqual('outside', schema.outside ?? 'clip', ['clip']);
    const counted = statistic.name === 'proved-cell-counts', fields = counted ? ['name', 'grids', 'digest'] : ['name', 'radius'];
    const unknown = Object.keys(statistic).filter(field => !fields.includes(field));
    if (unknown.length) throw new CollectionError(`statistic: ${unknown} received, which this client does not know`);
    this.name = file.name;
    this.opens = new Date(file.opens);
    this.closes = new Date(file.closes);
    this.expires = new Date(file.expires);
    this.authenticated = Boolean(file.authenticated);
    this.proved = proved;
    this.columns = Object.freeze(schema.columns.map(({ name, lower, upper }) => Object.freeze({ name, lower, upper })));
    try {
      this.#codebook = new Codebook(schema);
    } catch (error) {
      throw new CollectionError(`codebook: ${error.message}`);
    }
    this.variables = this.#codebook.variables;
    if (counted) this.#cells = new Cells(statistic.grids);
    this.task = file;
    this.keys = file.servers.map(({ keys }, server) => {
      const last = keys.at(-1);
      if (last.suite === 'x25519-mlkem768') {
        throw new CollectionError('this collection is sealed by x25519-mlkem768, which no browser has: contribute by a program, ' +
          'dpmpc submit --door');
      }
      requireEqual(`suite of server ${server}`, last.suite, ['x25519']);
      return { number: last.number, public: unhex(last.public) };
    });
    requireEqual('servers', this.keys.length, [trust.servers]);
    this.#prepare(KINDS.indexOf(statistic.name), encoding.fractional_bits, statistic.radius ?? 0);
  }

  /** What the task file promises, in words; the servers refuse to serve or to release where it does not hold. */
  get promised() {
    const { series, task: { trust, ...once } } = this.task, { epsilon, delta } = series ?? once;
    const own = series ? `your answers in all ${series.epochs} collections of this series together` : 'your answers';
    const honest = trust.servers - trust.corrupt_servers, follow = honest === 1 ? 'follows' : 'follow';
    return `${boundInWords(epsilon, delta, own)} This is promised as long as at least ${honest} of the ${trust.servers} servers ${follow} the rules.`;
  }

  #prepare(kind, bits, radius) {
    const d = this.columns.length, w = this.#w;
    const size = this.#cells?.count ?? d; // of what is shared of a row
    const ball = this.proved && radius ? widenedBall(bits, radius, d) : -1n;
    const facts = [kind, size, bits, this.keys.length, radius, ball], length = w.calls.report_plan_bytes(...facts);
    if (!length) throw new CollectionError(`task: ${facts.slice(0, 5)} received, for which there are no reports`);
    this.#plan = w.take(length);
    w.scoped(() => w.calls.report_plan(...facts, w.put(this.digest), this.#plan));
    const last = this.keys.length - 1;
    this.#lengths = {
      row: 8 * d, lower: 8 * d, upper: 8 * d, z: 8 * d, shared: 8 * size, id: ID, drawn: this.#size(DRAWN), keys: KEY * last, seed: DIGEST,
      streams: last * this.#size(STREAM), seedStream: this.#size(SEED_STREAM), work: this.#size(WORK),
      payloads: this.#payloadLengths().reduce((sum, one) => sum + one, 0),
    };
    this.#start = w.take(0);
    for (const [name, bytes] of Object.entries(this.#lengths)) this.#at[name] = w.take(bytes);
    this.#end = w.free;
  }

  #payloadLengths() {
    return [...Array(this.keys.length - 1).fill(this.#size(KEYED_PAYLOAD)), this.#size(LAST_PAYLOAD)];
  }

  #put(name, values, from = 0) {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    this.#w.view(this.#at[name] + from, bytes.length).set(bytes);
  }

  #get(name) {
    return this.#w.view(this.#at[name], this.#lengths[name]);
  }

  #size(which) {
    return this.#w.calls.report_size(this.#plan, which);
  }

  /**
   * Take the keys that servers have added since the task file was written, as a door hands them out, and seal to them from
   * now on. A key that its server has not signed is a CollectionError; a door that cannot be reached a SendError.
   */
  async learnKeys(door, { signal, patience } = {}) {
    let answer;
    try {
      const address = `${door.replace(/\/$/, '')}/v2/collections/${hex(this.digest)}/keys`;
      answer = await ask(address, { signal, patience, cache: 'no-store' });
    } catch (error) {
      throw new SendError(`${door}: no keys (${error.message})`, error.status ?? 0);
    }
    if (answer.status !== 200) throw new SendError(`${door}: no keys (${answer.status})`, answer.status);
    if (!Array.isArray(answer.said?.keys)) throw new CollectionError(`${door}: a list of keys expected`);
    for (const key of answer.said.keys) await this.#takeKey(key);
  }

  async #takeKey({ server, number, suite, public: digits, signature }) {
    const known = this.keys[server], first = this.task.servers[server]?.keys.length, said = `key ${number} of server ${server}`;
    if (!known || !Number.isInteger(number) || number < first || number > 255 || suite !== 'x25519') {
      throw new CollectionError(`${said}: received, a number from ${first} to 255 and suite x25519 expected`);
    }
    const key = unhex(digits), parts = [this.digest, [server], [number], text(suite), key];
    const signed = join(text('dpmpc v1 signature'), framed('dpmpc v2 key', ...parts));
    const by = await keyOf(this.task.servers[server].certificate);
    if (key.length !== 32 || !(await subtle.verify(ECDSA, by, rawSignature(unhex(signature)), signed))) {
      throw new CollectionError(`${said}: received, one that this server's certificate has signed expected`);
    }
    if (number > known.number) this.keys[server] = { number, public: key };
  }

  /** "not open yet", "open", "closed" or "expired", by this machine's clock. */
  state(now = new Date()) {
    return now < this.opens ? 'not open yet' : now < this.closes ? 'open' : now < this.expires ? 'closed' : 'expired';
  }

  /** The row of somebody's answers, by the names of the variables; null is one that is missing. */
  row(answers) {
    return this.#codebook.row(answers);
  }

  /**
   * Make a report of a row: numbers by the names of the columns, which are clipped to the bounds.
   * With a roster `ticket` is {report, secret} in hexadecimal digits.
   */
  async report(row, { ticket } = {}) {
    const z = this.#numbers(row);
    if (this.authenticated !== Boolean(ticket)) {
      throw new TypeError(`ticket: ${ticket ? 'one' : 'none'} received, ${ticket ? 'none' : 'one'} expected by this collection`);
    }
    const secret = ticket ? unhex(ticket.secret) : random(SECRET);
    const id = ticket ? unhex(ticket.report) : this.#w.sha256(framed('dpmpc v2 report id', this.digest, secret)).slice(0, ID);
    if (id.length !== ID || secret.length !== TICKET) throw new TypeError('ticket: report of 32 and secret of 64 digits expected');
    const payloads = await this.#alone(() => this.#payloads(z, id));
    const records = await Promise.all(payloads.map((payload, server) => {
      const { number, public: key } = this.keys[server];
      const info = framed('dpmpc v2 record', this.digest, [server], [number], id);
      const plain = ticket ? join(this.#token(secret, server), payload) : payload;
      return seal(this.#w, key, info, plain).then(sealed => join([number], sealed));
    }));
    for (const payload of payloads) payload.fill(0);
    return { id, secret, body: join([2], id, ...records) };
  }

  #numbers(row) {
    const unknown = Object.keys(row).find(name => !this.columns.some(column => column.name === name));
    if (unknown !== undefined) throw new RangeError(`${unknown}: received, columns ${this.columns.map(c => c.name)} expected`);
    return Float64Array.from(this.columns, ({ name }) => {
      if (typeof row[name] !== 'number' || !Number.isFinite(row[name])) {
        throw new RangeError(`${name}: ${row[name]} received, a finite number expected`);
      }
      return row[name];
    });
  }

  #token(secret, server) {
    const key = this.#w.extract(new Uint8Array(DIGEST), secret);
    return this.#w.expand(key, join(text('dpmpc v1 client token'), [0], littleEndian(server, 8)), TICKET);
  }

  /** Let one report at a time use the memory: making one waits for AES in between. */
  #alone(job) {
    const made = this.#making.then(job);
    this.#making = made.then(() => {}, () => {});
    return made;
  }

  /** What each server gets of a row, in this order; everything is drawn anew while a word is no element. */
  async #payloads(row, id) {
    const bounds = end => Float64Array.from(this.columns, column => column[end]);
    try {
      this.#put('row', row), this.#put('lower', bounds('lower')), this.#put('upper', bounds('upper')), this.#put('id', id);
      const at = this.#at;
      let result = this.#w.calls.report_normalise(this.columns.length, at.row, at.lower, at.upper, at.z);
      const z = new Float64Array(this.#get('z').slice().buffer);
      this.#put('shared', this.#cells?.digits(z) ?? z);
      if (result === DONE) do result = await this.#share(); while (result === DRAW_AGAIN);
      if (result !== DONE) throw new RangeError('row: numbers received of which no report can be made');
      let from = 0;
      return this.#payloadLengths().map(length => this.#get('payloads').slice(from, from += length));
    } finally {
      this.#w.view(this.#start, this.#end - this.#start).fill(0);
    }
  }

  async #share() {
    const { report_share_keys, report_begin, report_end } = this.#w.calls, at = this.#at, plan = this.#plan;
    this.#put('drawn', random(this.#size(DRAWN)));
    report_share_keys(plan, at.drawn, at.keys);
    const keys = this.#get('keys').slice(), length = this.#size(STREAM);
    for (let from = 0; from < keys.length; from += KEY) {
      this.#put('streams', await keyStream(keys.subarray(from, from + KEY), length), from / KEY * length);
    }
    const result = report_begin(plan, at.id, at.shared, at.drawn, at.streams, at.work, at.seed);
    if (result !== DONE) return result;
    if (this.proved) this.#put('seedStream', await keyStream(this.#get('seed').slice(), this.#size(SEED_STREAM)));
    return report_end(plan, at.drawn, at.streams, at.seedStream, at.work, at.payloads);
  }

  /**
   * Take a report back by its secret, until the release, at all of the `doors`, addresses of different servers. Return what
   * each has said of itself if the report is in no release provided that one of the doors in `by` is honest. Everything else
   * is a SendError, which is final if it is too late at every server.
   */
  async withdraw(secret, { doors, signal, patience } = {}) {
    if (!doors?.length) throw new TypeError('doors: none received, at least one address expected');
    if (secret.length !== SECRET) throw new TypeError(`secret: ${secret.length} bytes received, ${SECRET} expected`);
    const answers = Object.fromEntries(await Promise.all(doors.map(async door => {
      const address = `${door.replace(/\/$/, '')}/v2/collections/${hex(this.digest)}/withdrawals`;
      try {
        const { status, said } = await ask(address, { method: 'POST', body: secret, signal, patience });
        const [word] = Array.isArray(said?.reports) && said.reports.length === 1 ? said.reports : [];
        return [door, WORDS.includes(word) ? word : `refused (${status})`];
      } catch (error) {
        if (signal?.aborted) throw error;
        return [door, `no answer (${error.message})`];
      }
    })));
    const found = verdict(this.keys.length, 1, Object.values(answers));
    if (found === 'withdrawn') return { by: Object.keys(answers).filter(door => WITHDRAWN.includes(answers[door])), answers };
    const told = Object.entries(answers).map(([door, word]) => `${door}: ${word}`).join(', ');
    const failure = new SendError(`${found}; ${told}`, 0, answers);
    failure.final = found === 'too late';
    throw failure;
  }

  /**
   * Send a report to one of the `doors`, addresses of servers, each in its turn, until all servers
   * have it: always the same bytes, with pauses in between. A refusal that is final is a SendError.
   */
  async send(report, { doors, attempts = 8, signal, pause = PAUSE, patience } = {}) {
    if (!doors?.length) throw new TypeError('doors: none received, at least one address expected');
    let failure;
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (attempt) await sleep(Math.min(pause * 2 ** (attempt - 1), LONGEST_PAUSE) * (0.5 + Math.random() / 2), signal);
      const door = doors[attempt % doors.length].replace(/\/$/, '');
      let answer;
      try {
        const address = `${door}/v2/collections/${hex(this.digest)}/reports`;
        answer = await ask(address, { method: 'POST', body: report.body, signal, patience });
      } catch (error) {
        if (signal?.aborted) throw error;
        failure = new SendError(`${door}: ${error.status ? 'no JSON' : 'no answer'} (${error.message})`, error.status ?? 0);
        continue;
      }
      const said = answer.said, servers = said?.servers ?? {};
      const missing = this.keys.map((_, server) => [server, servers[server]]).filter(([, status]) => status !== 200);
      if (answer.status === 200 && !missing.length) return { everywhere: true, servers };
      failure = new SendError(said?.message ?? `stored, but not yet at servers ${missing.map(([j]) => j)}`, answer.status, servers);
      const refusing = missing.filter(([, status]) => FINAL.includes(status)).map(([j]) => j);
      failure.final = FINAL.includes(answer.status) || (answer.status === 202 && refusing.length > 0);
      if (answer.status === 202 && failure.final) failure.message = `refused for good by servers ${refusing}`;
      if (failure.final) throw failure;
    }
    throw failure;
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
