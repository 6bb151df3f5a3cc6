// The form of a collection: a field for each variable of its codebook. What is typed stays in the fields; the sealed report
// is kept in this browser until every server has it, and is sent again at the next visit or when there is a network again.

import { Client, hex, unhex } from '/client.mjs';
import { make, question, ticketFields, visible } from '/questions.mjs';

const at = id => document.getElementById(id);
const show = (...ids) => {
  for (const id of ['form', 'review', 'receipt', 'before']) at(id).hidden = !ids.includes(id);
};

function say(words, bad = false) {
  at('said').textContent = words;
  at('said').classList.toggle('bad', bad);
}

const inWords = time => time.toLocaleString(undefined, { dateStyle: 'long', timeStyle: 'short' });

async function bytes(path) {
  const answer = await fetch(path, { credentials: 'omit', cache: 'no-store' });
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.arrayBuffer();
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

/** Send a report; one of an earlier visit may be somebody else's, whose receipt is shown only to whom says it is theirs. */
async function deliver(client, kept, report, earlier = false) {
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
    if (!error.final) addEventListener('online', () => deliver(client, kept, report, earlier), { once: true });
    return;
  }
  kept.set({ sent: true });
  if (!earlier) return receipt(client, report);
  say('A report of an earlier visit is stored now.');
  contributed(client, kept, report);
}

function receipt(client, report) {
  const secret = report.secret ? hex(report.secret) : 'that of your ticket';
  at('report-id').textContent = hex(report.id);
  at('report-secret').textContent = secret;
  at('back').hidden = !report.secret;
  at('withdraw').onclick = () => takeBack(client, report);
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

/** Withdraw a report, and say on whose word; this page asks its own server, which hands it on. */
async function takeBack(client, report) {
  at('withdraw').disabled = true;
  try {
    await client.withdraw(report.secret, { doors: [location.origin] });
    say('Your report is withdrawn: it is in no release, if the server of this page is honest. It tells the other servers, too.');
    show(); // the receipt would say that every server has it
  } catch (error) {
    say(`Not withdrawn, as far as this page can tell: ${error.message}. Try again later; dpmpc withdraw, with the receipt, asks every server.`, true);
  } finally {
    at('withdraw').disabled = false;
  }
}

/** Say that there was a report, and let who is another person contribute. */
function contributed(client, kept, report) {
  at('mine').hidden = !report;
  at('mine').onclick = () => receipt(client, report);
  at('another').onclick = () => {
    kept.set(null);
    location.reload();
  };
  show('before');
}

function ask(client, kept) {
  const fields = client.variables.map((variable, place) => question(at('fields'), variable, place));
  if (client.authenticated) fields.push(...ticketFields(at('fields')));
  at('form').addEventListener('submit', event => {
    event.preventDefault();
    const found = fields.map(each => each.checked()), missing = found.indexOf(null);
    if (missing >= 0) {
      say(`${found.filter(each => each === null).length} of ${found.length} answers are missing or cannot be read.`, true);
      fields[missing].focus();
      return;
    }
    at('answers').replaceChildren();
    fields.forEach(({ label }, place) => {
      if (!label) return;
      const pair = make(at('answers'), 'div');
      make(pair, 'dt', { textContent: label });
      make(pair, 'dd', { textContent: found[place].words });
    });
    const answers = Object.fromEntries(fields.flatMap(({ name }, place) => name === undefined ? [] : [[name, found[place].answer]]));
    const ticket = client.authenticated ? Object.fromEntries(found.flatMap(each => each.ticket ? [each.ticket] : [])) : undefined;
    at('send').onclick = async () => {
      at('send').disabled = true;
      try {
        // offline, or with a door that keeps them back, the report is sealed to the keys that are known
        await client.learnKeys(location.origin).catch(error => { if (error.name !== 'SendError') throw error; });
        const { id, body, secret } = await client.report(client.row(answers), { ticket });
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
    fields[0].focus();
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
  at('servers').textContent = client.task.servers.map(({ organisation, url }) => organisation ? `${visible(organisation)} (${new URL(url).host})` : new URL(url).host).join(', ');
  const status = await fetch('/v1/status').then(answer => answer.json(), () => ({}));
  at('promised').textContent = client.promised;
  at('about').hidden = false;
  const state = status.state ?? client.state();
  const over = state !== 'open' && state !== 'not open yet';
  const told = state === 'expired' || state === 'released' ? state : 'closed';
  if (before?.body && over) {
    kept.set(null);
    return say(`This collection is ${told}. Your report had not reached every server; it is forgotten here.`, true);
  }
  if (state !== 'open') return say(over ? `This collection is ${told}.` : `Opens on ${inWords(client.opens)}.`, true);
  if (before?.body) {
    const report = { id: unhex(before.id), secret: before.secret && unhex(before.secret), body: unhex(before.body) };
    return deliver(client, kept, report, true);
  }
  if (!before?.sent) return ask(client, kept);
  say('This browser has sent a report.');
  contributed(client, kept);
}

at('done').addEventListener('click', () => location.reload());
addEventListener('hashchange', () => location.reload());
addEventListener('pageshow', event => event.persisted && location.reload()); // what somebody before may have left

/** Let this page open without a network, where the browser can keep it; the policy admits one script and no other. */
async function keepPage() {
  const only = path => {
    if (path !== '/sw.mjs') throw new TypeError(`${path}: received, /sw.mjs expected`);
    return path;
  };
  const policy = globalThis.trustedTypes?.createPolicy('dpmpc', { createScriptURL: only }) ?? { createScriptURL: only };
  await navigator.serviceWorker.register(policy.createScriptURL('/sw.mjs'));
  await navigator.serviceWorker.ready;
  at('offline').hidden = false;
}

if ('serviceWorker' in navigator) keepPage().catch(error => console.info(`Without a network this page does not open: ${error.message}`));
begin().catch(error => say(error.name === 'CollectionError' ? `You cannot contribute here: ${error.message}`
  : `This page could not be loaded, or this browser cannot seal answers: ${error.message}. Try again, or with another browser.`, true));
