// Keeps the form of the last visit with a network, so that it opens without one. What the server says comes first, always:
// nothing is kept from whoever could replace this file, too. Reports are no business of this file.

const KEPT = 'dpmpc';
const FILES = ['/contribute', '/contribute.css', '/contribute.mjs', '/questions.mjs', '/client.mjs', '/codebook.mjs', '/report.wasm', '/v1/collection'];

async function keepAll() {
  const cache = await caches.open(KEPT);
  await cache.addAll(FILES.map(path => new Request(path, { cache: 'no-store', credentials: 'omit' })));
  await skipWaiting();
}

/** The server's answer, which is kept where it is one; without it what was kept. */
async function answer(request, path) {
  const cache = await caches.open(KEPT);
  let failure;
  try {
    const found = await fetch(request);
    if (found.ok) await cache.put(path, found.clone());
    if (found.status < 500) return found;
    failure = found;
  } catch (error) {
    failure = error;
  }
  const kept = await cache.match(path);
  if (kept) return kept;
  if (failure instanceof Response) return failure;
  throw failure;
}

addEventListener('install', event => event.waitUntil(keepAll()));
addEventListener('activate', event => event.waitUntil(clients.claim()));
addEventListener('fetch', event => {
  const { origin, pathname } = new URL(event.request.url);
  if (origin === location.origin && event.request.method === 'GET' && FILES.includes(pathname)) {
    event.respondWith(answer(event.request, pathname));
  }
});
