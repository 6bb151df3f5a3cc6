// Runs the client in JavaScript for tests: takes {client, wasm, job, ...} as JSON from standard input, answers in JSON.
// What a job has drawn is given out in place of random bytes; a call for more of them than there are fails.
import { readFileSync } from 'node:fs';

const given = JSON.parse(readFileSync(0, 'utf8'));
const { Client, hex, unhex, seal, verdict } = await import(given.client);
const instances = [];
const { Instance } = WebAssembly;
WebAssembly.Instance = function (...arguments_) {
  const made = new Instance(...arguments_);
  instances.push(made.exports);
  return made;
};
const wasm = await WebAssembly.compile(readFileSync(given.wasm));

function draw(...texts) {
  const bytes = texts.map(unhex);
  globalThis.crypto.getRandomValues = into => {
    const next = bytes.shift();
    if (next?.length !== into.length) throw new Error(`${into.length} random bytes requested, ${next?.length} given`);
    into.set(next);
    return into;
  };
}

const row = (client, numbers) => Object.fromEntries(client.columns.map(({ name }, place) => [name, numbers[place]]));
const told = async action => {
  try {
    return { answer: await action() };
  } catch (error) {
    return { error: error.name, message: error.message, status: error.status, final: error.final, servers: error.servers };
  }
};
const open = () => Client.open(unhex(given.task), given.digest, wasm);

const jobs = {
  async remake() {
    const client = await open(), made = [];
    for (const { numbers, drawn } of given.reports) {
      draw(...drawn);
      const { id, secret, body } = await client.report(row(client, numbers), { ticket: given.ticket });
      made.push({ id: hex(id), secret: hex(secret), body: hex(body) });
    }
    return made;
  },
  async at_once() {
    const client = await open();
    const made = await Promise.all(given.reports.map(({ numbers }) => client.report(row(client, numbers))));
    return made.map(({ body }) => hex(body));
  },
  async left() {
    const client = await open(), [{ numbers, drawn }] = given.reports;
    const [{ memory, __heap_base }] = instances, before = new Uint8Array(memory.buffer).slice(__heap_base.value);
    draw(...drawn);
    await client.report(row(client, numbers));
    const after = new Uint8Array(memory.buffer), heap = after.subarray(__heap_base.value);
    return { memory: hex(after), kept: heap.every((byte, place) => byte === (before[place] ?? 0)) };
  },
  async answers() {
    const client = await open();
    const rows = await Promise.all(given.answers.map(one => told(() => client.row(one))));
    return { variables: client.variables, rows };
  },
  promised: async () => (await open()).promised,
  open: () => told(async () => (await open()).state(new Date(given.now))),
  async rows() {
    const client = await open();
    return Promise.all(given.rows.map(each => told(() => client.report(each, { ticket: given.ticket }))));
  },
  async send() {
    const client = await open(), answers = [], asked = [];
    globalThis.fetch = async (address, { body }) => {
      const next = given.answers[asked.length];
      asked.push([address, hex(body)]);
      if (next === null) throw new TypeError('fetch failed');
      return { status: next.status, json: async () => next.said };
    };
    const report = { id: new Uint8Array(16), secret: new Uint8Array(32), body: Uint8Array.of(2, 7) };
    answers.push(await told(() => given.withdraw ? client.withdraw(report.secret, { doors: given.doors })
      : client.send(report, { doors: given.doors, attempts: given.attempts, pause: 1 })));
    return { asked, ...answers[0] };
  },
  verdicts: () => given.verdicts.map(({ servers, needed, words }) => verdict(servers, needed, words)),
  async silent() {
    const client = await open(), report = { secret: new Uint8Array(32), body: Uint8Array.of(2, 7) };
    const { doors, patience } = given, options = { doors, patience, attempts: 2, pause: 1 };
    return Promise.all([client.send(report, options), client.withdraw(report.secret, options), client.learnKeys(doors[0], options)]
      .map(job => told(() => job)));
  },
  async keys() {
    const client = await open();
    globalThis.fetch = async () => {
      const next = given.answers[0];
      if (next === null) throw new TypeError('fetch failed');
      return { status: next.status, json: async () => next.said };
    };
    const answer = await told(async () => {
      await client.learnKeys(given.door ?? 'https://a.example/');
      return client.keys.map(({ number }) => number);
    });
    return answer.error ? answer : { ...answer, public: hex(client.keys[1].public) };
  },
  async contribute() {
    const client = await open(), sent = [];
    for (const [place, one] of given.rows.entries()) {
      const numbers = Array.isArray(one) ? row(client, one) : client.row(one);
      const report = await client.report(numbers), door = given.doors[place % given.doors.length];
      const { servers } = await client.send(report, { doors: [door] });
      sent.push({ id: hex(report.id), servers });
    }
    return sent;
  },
  async standard() {
    const pair = { publicKey: await globalThis.crypto.subtle.importKey('raw', unhex(given.pkEm), 'X25519', true, []) };
    const jwk = { kty: 'OKP', crv: 'X25519', d: given.d, x: given.x };
    pair.privateKey = await globalThis.crypto.subtle.importKey('jwk', jwk, 'X25519', false, ['deriveBits']);
    globalThis.crypto.subtle.generateKey = async () => pair;
    return hex(await seal(wasm, unhex(given.pkRm), unhex(given.info), unhex(given.plain), unhex(given.aad)));
  },
};
process.stdout.write(JSON.stringify(await jobs[given.job]()));
