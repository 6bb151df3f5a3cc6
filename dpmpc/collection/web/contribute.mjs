// The form of a collection: a field for each column, or one for the categories of a question. What is typed stays in the
// fields; the sealed report is kept in this browser until every server has it, and is sent again at the next visit.

import { Client, hex, unhex } from '/client.mjs';

const at = id => document.getElementById(id);
const show = (...ids) => {
  for (const id of ['form', 'review', 'receipt', 'before']) at(id).hidden = !ids.includes(id);
};

function say(words, bad = false) {
  at('said').textContent = words;
  at('said').classList.toggle('bad', bad);
}

function make(parent, kind, properties = {}, attributes = {}) {
  const made = Object.assign(document.createElement(kind), properties);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
}

/** A text of the task file, but for names of columns, which are printable, with its control characters, and those that turn or hide text, made visible. */
const visible = text => text.replace(/(?! )[\p{C}\p{Z}]/gu, one => `\\u{${one.codePointAt(0).toString(16)}}`);

const inWords = time => time.toLocaleString(undefined, { dateStyle: 'long', timeStyle: 'short' });

async function bytes(path) {
  const answer = await fetch(path, { credentials: 'omit', cache: 'no-store' });
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.arrayBuffer();
}

/** Columns NAME=LEVEL from 0 to 1 of one NAME are one question with a choice; every other column is a number. */
function questionsOf(columns) {
  const questions = new Map(), isLevel = ({ name, lower, upper }) => name.indexOf('=') > 0 && lower === 0 && upper === 1;
  const numbers = new Set(columns.filter(column => !isLevel(column)).map(({ name }) => name));
  for (const column of columns) {
    const { name, lower, upper } = column, cut = name.indexOf('='), level = name.slice(cut + 1), asked = name.slice(0, cut);
    if (!isLevel(column) || numbers.has(asked)) questions.set(name, { name, column: name, lower, upper });
    else if (questions.has(asked)) questions.get(asked).levels.push({ level, column: name });
    else questions.set(asked, { name: asked, levels: [{ level, column: name }] });
  }
  return [...questions.values()];
}

/** A field, its hint and its error; `read` returns the numbers of its columns and the words for the summary, or null. */
function field(parent, question, place) {
  const block = make(parent, 'div', { className: 'field' }), id = `field-${place}`;
  make(block, 'label', { htmlFor: id, textContent: question.name });
  const hint = make(block, 'p', { className: 'hint', id: `${id}-hint` });
  const described = { 'aria-describedby': `${id}-hint ${id}-error` };
  let input, read, wrong;
  if (question.levels) {
    hint.textContent = 'Choose one.';
    wrong = () => 'Choose one of the answers.';
    input = make(block, 'select', { id, required: true, autocomplete: 'off' }, described);
    make(input, 'option', { value: '', textContent: '' });
    question.levels.forEach(({ level }, number) => make(input, 'option', { value: `${number}`, textContent: level }));
    make(input, 'option', { value: 'other', textContent: 'none of these' });
    read = () => input.value === '' ? null : {
      numbers: question.levels.map(({ column }, number) => [column, input.value === `${number}` ? 1 : 0]),
      words: input.selectedOptions[0].textContent,
    };
  } else {
    const { lower, upper, column } = question;
    hint.textContent = `A number from ${lower} to ${upper}. One outside is moved to the nearer end on your device.`;
    const thousands = /^[+-]?[1-9]\d{0,2},\d{3}$/; // or decimals: nobody can tell, and it is a factor of 1,000
    wrong = () => thousands.test(input.value.trim())
      ? 'Type it with a point before decimals, and nothing between thousands.'
      : `Type a number, such as ${(lower + upper) / 2}.`;
    const facts = { id, type: 'text', inputMode: 'decimal', required: true, autocomplete: 'off' };
    input = make(block, 'input', facts, described);
    read = () => {
      const given = input.value.trim(), typed = thousands.test(given) ? '' : given.replace(/^([+-]?\d*),(\d+)$/, '$1.$2');
      if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed) || !Number.isFinite(Number(typed))) return null;
      const number = Number(typed), sent = Math.min(upper, Math.max(lower, number));
      return { numbers: [[column, sent]], words: sent === number ? `${number}` : `${number}, sent as ${sent}` };
    };
  }
  const error = make(block, 'p', { className: 'error', id: `${id}-error` });
  const checked = () => {
    const found = read();
    input.setAttribute('aria-invalid', `${found === null}`);
    error.textContent = found === null ? wrong() : '';
    return found;
  };
  input.addEventListener('input', () => error.textContent && checked());
  return { name: question.name, input, checked };
}

function ticketFields(parent) {
  const texts = { report: [32, 'Report of your ticket'], secret: [64, 'Secret of your ticket'] };
  return Object.entries(texts).map(([part, [length, name]]) => {
    const block = make(parent, 'div', { className: 'field' }), id = `ticket-${part}`;
    make(block, 'label', { htmlFor: id, textContent: name });
    make(block, 'p', { className: 'hint', id: `${id}-hint`, textContent: `${length} digits from 0 to 9 and a to f.` });
    const described = { 'aria-describedby': `${id}-hint ${id}-error`, spellcheck: 'false' };
    const input = make(block, 'input', { id, type: 'text', required: true, autocomplete: 'off' }, described);
    const error = make(block, 'p', { className: 'error', id: `${id}-error` });
    const checked = () => {
      const typed = input.value.trim().toLowerCase(), fits = typed.length === length && /^[0-9a-f]*$/.test(typed);
      input.setAttribute('aria-invalid', `${!fits}`);
      error.textContent = fits ? '' : `${length} digits from 0 to 9 and a to f expected.`;
      return fits ? { ticket: [part, typed] } : null;
    };
    return { input, checked };
  });
}

/**
 * What this browser keeps of a report, under the digest: sealed until it is everywhere, then that there was one. Its
 * secret is kept with it, but for that of a ticket, which somebody typed.
 */
class Kept {
  constructor(digest) {
    this.key = `dpmpc ${digest}`;
  }
  get() {
    try {
      return JSON.parse(localStorage.getItem(this.key));
    } catch {
      return null;
    }
  }
  set(value) {
    try {
      if (value === null) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify(value));
    } catch {
      return; // a browser that keeps nothing: the report is sent all the same, but not again at the next visit
    }
  }
}

async function deliver(client, kept, report) {
  show();
  say('Sending. You may leave this page open, or come back later: the same report is sent again and counts once.');
  try {
    await client.send(report, { doors: [location.origin], attempts: 20 });
  } catch (error) {
    const others = error.status === 202 && !client.authenticated; // who refuse may have it: with tickets none counts twice
    if (error.final) kept.set(others ? { sent: true } : null);
    const next = !error.final ? 'Open this page again later: the same report is sent.'
      : others ? 'If that is true, it does not count. Do not answer anew: nobody can tell, and you could count twice.'
        : 'Unless an earlier attempt reached every server, it does not count. Open this page again to answer anew.';
    say(`Not every server has your report: ${error.message}. ${next}`, true);
    return;
  }
  kept.set({ sent: true });
  const secret = report.secret ? hex(report.secret) : 'that of your ticket';
  at('report-id').textContent = hex(report.id);
  at('report-secret').textContent = secret;
  at('save').onclick = () => {
    const lines = [visible(client.name), `digest ${hex(client.digest)}`, `report ${hex(report.id)}`, `secret ${secret}`];
    const address = URL.createObjectURL(new Blob([`${lines.join('\n')}\n`], { type: 'text/plain' }));
    make(document.body, 'a', { href: address, download: 'receipt.txt', hidden: true }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  show('receipt');
  say('Your report is stored.');
  at('receipt-title').focus();
}

function ask(client, kept) {
  const fields = questionsOf(client.columns).map((question, place) => field(at('fields'), question, place));
  if (client.authenticated) fields.push(...ticketFields(at('fields')));
  at('form').addEventListener('submit', event => {
    event.preventDefault();
    const found = fields.map(each => each.checked()), missing = found.indexOf(null);
    if (missing >= 0) {
      say(`${found.filter(each => each === null).length} of ${found.length} answers are missing or cannot be read.`, true);
      fields[missing].input.focus();
      return;
    }
    at('answers').replaceChildren();
    fields.forEach(({ name }, place) => {
      if (!name) return;
      const pair = make(at('answers'), 'div');
      make(pair, 'dt', { textContent: name });
      make(pair, 'dd', { textContent: found[place].words });
    });
    const row = Object.fromEntries(found.flatMap(each => each.numbers ?? []));
    const ticket = client.authenticated ? Object.fromEntries(found.flatMap(each => each.ticket ? [each.ticket] : [])) : undefined;
    at('send').onclick = async () => {
      at('send').disabled = true;
      try {
        // offline, or with a door that keeps them back, the report is sealed to the keys that are known
        await client.learnKeys(location.origin).catch(error => { if (error.name !== 'SendError') throw error; });
        const { id, body, secret } = await client.report(row, { ticket });
        const report = { id, body, secret: ticket ? undefined : secret };
        at('form').reset();
        at('answers').replaceChildren();
        kept.set({ id: hex(id), secret: report.secret && hex(secret), body: hex(body) });
        await deliver(client, kept, report);
      } catch (error) {
        say(`No report could be made: ${error.message}`, true);
      } finally {
        at('send').disabled = false;
      }
    };
    show('review');
    say('Check your answers before you send them.');
    at('review-title').focus();
  });
  at('change').addEventListener('click', () => {
    show('form');
    say('Change what you like.');
    fields[0].input.focus();
  });
  show('form');
  say('Ready.');
}

async function begin() {
  const [task, wasm] = await Promise.all([bytes('/v1/collection'), bytes('/report.wasm')]);
  const found = hex(new Uint8Array(await crypto.subtle.digest('SHA-256', task))), wanted = location.hash.slice(1);
  at('digest').textContent = found;
  const client = await Client.open(task, wanted || found, wasm), kept = new Kept(found), before = kept.get();
  at('name').textContent = document.title = visible(client.name);
  for (const [id, first] of [['purpose', ''], ['contact', 'Questions: ']]) {
    const words = visible(client.task[id] ?? '');
    at(id).textContent = first + words;
    at(id).hidden = !words;
  }
  at('split').textContent = `They are split into ${client.keys.length} parts on this device, each sealed for one server. ` +
    'Only all servers together could read them: no server alone, and nobody in between.';
  at('who').textContent = client.authenticated ? 'Your ticket shows that you may contribute, and who you are to whoever gave it.' : 'No name is sent.';
  at('closes').textContent = inWords(client.closes);
  at('servers').textContent = client.task.servers.map(({ url }) => new URL(url).host).join(', ');
  const status = await fetch('/v1/status').then(answer => answer.json(), () => ({}));
  if (typeof status.guarantee === 'string') {
    at('promised').textContent = `This server promises: ${visible(status.guarantee.split('\n')[0])}`;
    at('promised').hidden = false;
  }
  at('about').hidden = false;
  const state = status.state ?? client.state();
  if (before?.body && (state === 'closed' || state === 'expired')) {
    kept.set(null);
    return say(`This collection is ${state}. Your report had not reached every server; it is forgotten here.`, true);
  }
  if (state !== 'open') return say(state === 'not open yet' ? `Opens on ${inWords(client.opens)}.` : `This collection is ${state}.`, true);
  if (before?.body) {
    const report = { id: unhex(before.id), secret: before.secret && unhex(before.secret), body: unhex(before.body) };
    return deliver(client, kept, report);
  }
  if (!before?.sent) return ask(client, kept);
  show('before');
  say('This browser has sent a report.');
  at('another').addEventListener('click', () => {
    kept.set(null);
    ask(client, kept);
  });
}

addEventListener('hashchange', () => location.reload());
begin().catch(error => say(error.name === 'CollectionError' ? `You cannot contribute here: ${error.message}`
  : `This page could not be loaded, or this browser cannot seal answers: ${error.message}. Try again, or with another browser.`, true));
