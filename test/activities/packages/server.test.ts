import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type { Served } from '../../../activities/packages/served.ts'
import { type PackageServerOptions, packageServer } from '../../../activities/packages/server.ts'
import { Uses } from '../../../activities/packages/uses.ts'
import { packageCacheRules } from '../../../policy/packages/cache-rules.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { get } from '../../kit/hosts/packages.ts'

/* The server for builds alone, with archives and times of the test. */

async function scene(
  t: { teardown(work: () => void): void },
  archive: PackageServerOptions['archive'],
  clientSeconds = packageCacheRules.clientSeconds as { silent: number; answer: number },
  mayBeElsewhere = false,
) {
  const counts = { requests: 0, troubles: 0, passedOn: 0 }
  const wanted = { url: 'http://registry.test/x.tgz', digest: null, algorithms: [], findDigest: async () => null }
  const paths = () => ({ parse: () => ({ kind: 'archive' as const, archive: wanted }) })
  const none = () => Promise.reject(new Error('It has none.'))
  const server = packageServer({
    subnet: '127.0.0.0/24',
    paths,
    mayBeElsewhere,
    archive,
    document: none,
    list: none,
    counts,
    uses: new Uses(),
    clientSeconds,
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { counts, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x.tgz` }
}

/** No answer until the client has left. */
const never: PackageServerOptions['archive'] = (_, { signal }) =>
  new Promise<Served>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

test('an answer that is cut off because it is silent or takes too long counts as a trouble', async t => {
  for (const clientSeconds of [
    { silent: 0.5, answer: 100 },
    { silent: 100, answer: 0.5 },
  ]) {
    const { counts, url } = await scene(t, never, clientSeconds)
    await t.throwsAsync(get(url))
    t.is(counts.troubles, 1, JSON.stringify(clientSeconds))
  }
})

test('a file that the registry does not have is a trouble only where a step without the cache asks another one', async t => {
  const cases: [status: number, mayBeElsewhere: boolean, troubles: number][] = [
    [404, false, 0],
    [410, false, 0],
    [404, true, 1],
    [403, false, 1],
  ]
  for (const [status, mayBeElsewhere, troubles] of cases) {
    const { counts, url } = await scene(t, async () => ({ kind: 'status', status }), undefined, mayBeElsewhere)
    t.is((await get(url)).status, status)
    t.is(counts.troubles, troubles, `${status} ${mayBeElsewhere}`)
  }
})

test('a client that leaves, and a connection that asks for nothing, are no trouble, and what was started for them ends', async t => {
  const started: AbortSignal[] = []
  const archive: PackageServerOptions['archive'] = (wanted, asker) => {
    started.push(asker.signal)
    return never(wanted, asker)
  }
  const { counts, url } = await scene(t, archive, { silent: 0.5, answer: 100 })
  const { hostname, port } = new URL(url)
  const idle = connect(Number(port), hostname)
  await once(idle.resume(), 'close')
  const leaving = connect(Number(port), hostname)
  leaving.write('GET /x.tgz HTTP/1.1\r\nHost: x\r\n\r\n')
  await comesTrue(() => started.length === 1)
  leaving.resetAndDestroy()
  await comesTrue(() => started[0]!.aborted)
  await sleep(50)
  t.deepEqual(counts, { requests: 1, troubles: 0, passedOn: 0 })
})

test('a step gets an answer before its connection counts as silent, however slow a registry is', t => {
  const { slotSeconds, documentSeconds, clientSeconds } = packageCacheRules
  // A slot for the document, the document, a slot for reading it. The digest of an archive: two documents.
  t.true(slotSeconds + documentSeconds + slotSeconds < clientSeconds.silent)
  t.true(2 * documentSeconds < clientSeconds.silent)
})
