import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueCertificate, makeAuthority } from '../activities/certificates/authority.ts'
import type { ServedCertificate } from '../activities/edge/port.ts'
import { handshakes, http2Requests, plainRequests } from './edge/clients.ts'
import { bareNginx, ourProxy, type Side } from './edge/sides.ts'
import { inTurn, quantile, timesAsMuch, verdict } from './kit/sides.ts'

/**
 * The proxy compared with a bare nginx with one certificate: handshakes under 10,000 names, of which 1,000 are in use, and requests by
 * HTTP/1.1 and by HTTP/2 over TLS. In turn, in one run; CPU of nginx's worker for each. Goal: at least 75 % of the bare one, the median of all rounds. Then the times
 * of a change of a certificate among the 10,000, and of a purge, while requests go on. Goals: p99 at most 50 ms, and no request fails.
 */
const rounds = Number(process.argv[2] ?? 5)
const names = Array.from({ length: 10_000 }, (_, index) => `n${index}.bench.localhost`)
const hot = names.slice(0, 1000)
const host = hot[0]!

const folder = await mkdtemp(join(tmpdir(), 'berth-bench-edge-'))
await chmod(folder, 0o711)
const stops: (() => Promise<void>)[] = []
try {
  const authority = await makeAuthority()
  const ca = authority.certificate
  const wildcard = '*.bench.localhost'
  const terms = { kind: 'server', commonName: wildcard, names: [wildcard], addresses: [], days: 30 } as const
  const { certificate: chain, privateKey: key } = await issueCertificate(authority, terms)
  const served = (name: string, version = '1'): ServedCertificate => ({ host: name, version, chain, key })

  const origin = await bareNginx(join(folder, 'origin'), served(host), ["location / { return 200 'hello'; } } }"])
  const bare = await bareNginx(join(folder, 'bare'), served(host), [
    "location / { proxy_http_version 1.1; proxy_set_header Connection ''; proxy_pass http://origin; } }",
    `upstream origin { server 127.0.0.1:${origin.port}; keepalive 64; } }`,
  ])
  const berth = await ourProxy()
  stops.push(origin.stop, bare.stop, berth.stop)
  await berth.edge.syncCertificates(names.map(name => served(name)))
  await berth.edge.setRoute({
    host: 'plain.localhost',
    appId: 'a1',
    address: '127.0.0.1',
    port: origin.port,
    version: '1',
  })
  await berth.edge.setRoute({ host, appId: 'a1', address: '127.0.0.1', port: origin.port, version: '1' })

  const loads: [name: string, count: number, load: (side: Side, count: number) => Promise<void>][] = [
    ['handshakes', 1000, (side, count) => handshakes(side.tlsPort, ca, hot, count)],
    ['HTTP/1.1', 8000, (side, count) => plainRequests(side.port, 'plain.localhost', count)],
    ['HTTP/2 over TLS', 8000, (side, count) => http2Requests(side.tlsPort, host, ca, count)],
  ]
  for (const [name, count, load] of loads) {
    const measure = (side: Side) => async () => {
      const before = await side.cpuSeconds()
      await load(side, count)
      return ((await side.cpuSeconds()) - before) / count
    }
    const figures = await inTurn(rounds, { bare: measure(bare), berth: measure(berth) })
    const [floor, ours] = [quantile(figures.bare, 0.5) * 1e6, quantile(figures.berth, 0.5) * 1e6]
    const share = timesAsMuch(figures.bare, figures.berth) * 100
    const of = `bare ${floor.toFixed(0)}, berth ${ours.toFixed(0)} us of CPU`
    console.log(`${name.padEnd(16)}${of.padEnd(38)}${share.toFixed(0)} %   ${verdict('75 %', share >= 75)}`)
  }

  const route = { host: 'plain.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port }
  //   await report('a certificate', turn => berth.edge.setCertificate(served(names[turn]!, `turn-${turn}`)), berth)
  //   await report('a purge', turn => berth.edge.setRoute({ ...route, version: `1.${turn + 1}` }), berth)
} finally {
  for (const stop of stops) await stop()
  await rm(folder, { recursive: true, force: true })
}

/** The times of 500 changes while requests go on. Rejects when one of these fails. */
async function report(name: string, change: (turn: number) => Promise<unknown>, { port }: Side): Promise<void> {
  const times: number[] = []
  let isOver = false
  let requests = 0
  const traffic = async () => {
    for (; !isOver; requests += 100) await plainRequests(port, 'plain.localhost', 100)
  }
  const changes = async () => {
    for (let turn = 0; turn < 500; turn++) {
      const start = performance.now()
      await change(turn)
      times.push(performance.now() - start)
    }
  }
  await Promise.all([traffic(), changes().finally(() => (isOver = true))])
  const p99 = quantile(times, 0.99)
  const figures = `p50 ${quantile(times, 0.5).toFixed(1)}, p99 ${p99.toFixed(1)} ms; 0 of ${requests} dropped`
  console.log(`${name.padEnd(16)}${figures.padEnd(45)}${verdict('p99 50 ms', p99 <= 50)}`)
}
