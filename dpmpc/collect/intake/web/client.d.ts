/** A column of the collection and its public bounds; values outside are clipped. */
export interface Column {
  readonly name: string;
  readonly lower: number;
  readonly upper: number;
}

/** What a person is asked for. */
export interface Variable {
  readonly name: string;
  readonly kind: "number" | "category" | "yes-no" | "date";
  /** What to ask, or the name. */
  readonly label: string;
  readonly meaning: string;
  readonly unit: string;
  /** Bounds of a number, or of a date as YYYY-MM-DD. */
  readonly lower?: number | string;
  readonly upper?: number | string;
  /** What a category or an answer can be. */
  readonly values?: readonly string[];
  readonly mayBeMissing: boolean;
}

/** A number; one of the values; true or false; a date as YYYY-MM-DD; null where it is missing. */
export type Answer = number | string | boolean | null;

/** Keep all of it until every server has it, then id and secret alone: who has the secret can show whose report it is. */
export interface Report {
  id: Uint8Array;
  secret: Uint8Array;
  body: Uint8Array;
}

/** What a person on a roster was given, in hexadecimal digits. */
export interface Ticket {
  report: string;
  secret: string;
}

export interface Waiting {
  signal?: AbortSignal;
  /** Milliseconds until a door has answered in full; 30,000 by default. */
  patience?: number;
}

export interface Withdrawn {
  /** The doors that confirmed it: the report is in no release if one of them is honest. */
  by: string[];
  /** What each door said of its server. */
  answers: Record<string, string>;
}

export interface SendOptions extends Waiting {
  /** Addresses such as "https://server-0.example", taken in turn. */
  doors: string[];
  /** How often the same bytes are sent at most; 8 by default. */
  attempts?: number;
  /** Milliseconds before the second attempt, doubled up to 30 seconds; 1,000 by default. */
  pause?: number;
}

export class CollectionError extends Error {}

export class SendError extends Error {
  /** Of HTTP, or 0 where there was no answer, or where several doors were asked. */
  readonly status: number;
  /** Whether the same bytes would be refused again; otherwise send them later. */
  readonly final: boolean;
  /** What each server answered, by its number: a status of HTTP or "unreachable"; of a withdrawal the words, by doors. */
  readonly servers?: Record<string, number | string>;
}

export class Client {
  /** Refuses a task whose digest is another, or to which this client cannot contribute. */
  static open(task: BufferSource, digest: string, wasm: BufferSource | WebAssembly.Module): Promise<Client>;
  readonly name: string;
  readonly opens: Date;
  readonly closes: Date;
  readonly expires: Date;
  readonly authenticated: boolean;
  readonly proved: boolean;
  readonly columns: readonly Column[];
  readonly variables: readonly Variable[];
  readonly digest: Uint8Array;
  /** What the task file promises, in words for whoever answers. */
  readonly promised: string;
  /** The task file, parsed. */
  readonly task: unknown;
  /** The key of each server to which its record is sealed. */
  readonly keys: readonly { number: number; public: Uint8Array }[];
  /** Seals from now on to the keys that servers have added and signed; CollectionError where one is not signed. */
  learnKeys(door: string, options?: Waiting): Promise<void>;
  state(now?: Date): "not open yet" | "open" | "closed" | "expired";
  /** What `report` takes, from an answer to each variable; RangeError names the one that is none. */
  row(answers: Record<string, Answer>): Record<string, number>;
  /** A number for each column, by its name; RangeError names the one that is none. */
  report(row: Record<string, number>, options?: { ticket?: Ticket }): Promise<Report>;
  /** Takes a report back by its secret, at doors of different servers; SendError where none has confirmed that. */
  withdraw(secret: Uint8Array, options: { doors: string[] } & Waiting): Promise<Withdrawn>;
  /** Sends the same bytes until all servers have them, as a door says; SendError where that fails. */
  send(report: Report, options: SendOptions): Promise<{ everywhere: true; servers: Record<string, number> }>;
}

/** What the words of servers, each of itself, amount to; `needed` have to confirm a withdrawal, one with additive shares. */
export function verdict(
  servers: number,
  needed: number,
  words: string[],
): "withdrawn" | "too late" | "never here" | "not confirmed";
export function hex(bytes: Uint8Array): string;
export function unhex(digits: string): Uint8Array;

/** HPKE (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM: enc | ciphertext. */
export function seal(
  module: WebAssembly.Module,
  publicKey: Uint8Array,
  info: Uint8Array,
  plain: Uint8Array,
  associated?: Uint8Array,
): Promise<Uint8Array>;
