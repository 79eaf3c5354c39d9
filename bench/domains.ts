import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AcmeAccount, acmeAuthority } from '../activities/certificates/acme/acme.ts'
import type { OrderStatus } from '../activities/certificates/port.ts'
import { newRequest } from '../activities/certificates/request.ts'
import { unusedPort } from '../cli/installation/ports.ts'
import { TestDns } from '../test/kit/servers/dns.ts'
import { askHttps } from '../test/kit/servers/https.ts'
import { Pebble } from '../test/kit/servers/pebble.ts'
import { BenchApps, newText } from './deploy/applications.ts'
import { type BenchPlatform, startPlatform } from './kit/platform.ts'
import { inTurn, quantile, verdict } from './kit/sides.ts'

/**
 * From a DNS record of a customer's name that is visible until the application answers there by https, compared with the bare calls to
 * the same kind of authority: a request of a certificate, validated by http, until it is collected. In turn, in one run. Goal: at most 500 ms
 * more at the median. The owner sends the name again, so that the platform looks at once: else it looks within 15 s.
 */
const rounds = Number(process.argv[2] ?? 10)
const goalMs = 500

/** Between two looks at an order, and at the proxy. */
const pollMs = 10

const [port, tlsPort, barePort] = [await unusedPort(), await unusedPort(), await unusedPort()]
const dns = await TestDns.start()
const pebble = await Pebble.start({ dns: dns.address, httpPort: port })
const barePebble = await Pebble.start({ dns: dns.address, httpPort: barePort })
const bare = await bareCalls(barePebble, barePort)
try {
  const platform = await startPlatform({
    ...{ EDGE_TLS: 'acme', EDGE_PORT: String(port), EDGE_TLS_PORT: String(tlsPort), DNS_SERVERS: dns.address },
    ...{ ACME_DIRECTORY_URL: pebble.directoryUrl, ACME_CA_BUNDLE: pebble.ca },
    ...{ EDGE_PUBLIC_ADDRESSES: '127.0.0.1', EDGE_PUBLIC_PORT: String(port) },
    EDGE_URL: `http://127.0.0.1:${port}`,
  })
  try {
    const ours = await ourDomains(platform)
    const figures = await inTurn(rounds, { bare: bare.certify, berth: ours })
    const [floor, median] = [quantile(figures.bare, 0.5), quantile(figures.berth, 0.5)]
    const over = median - floor
    console.log(
      `bare calls ${floor.toFixed(0)} ms, until https answers ${median.toFixed(0)} ms: + ${over.toFixed(0)} ms`,
    )
    console.log(verdict(`+ ${goalMs} ms`, over <= goalMs))
  } finally {
    await platform.stop()
  }
} finally {
  bare.stop()
  await Promise.all([pebble.remove(), barePebble.remove(), dns.stop()])
}

/** A name of a registered domain of its own in each round: authorities, and so the platform, limit the orders of one. */
function newName(side: string): string {
  return `shop.${side}-${Math.random().toString(36).slice(2, 10)}.dev`
}

/** Milliseconds from the record on until the name answers by https. */
async function ourDomains(platform: BenchPlatform): Promise<() => Promise<number>> {
  const text = newText()
  const key = await platform.account('standard-4')
  const { id } = await new BenchApps(platform).deploy({}, text, key)
  const ca = await pebble.root()
  const set = (custom: string) =>
    platform.json('POST', `/v2/apps/${id}/network/custom`, { key, body: JSON.stringify({ custom }) })
  return async () => {
    const hostname = newName('berth')
    await set(hostname)
    const records = await platform.json<{ name: string; value: string }[]>('GET', `/v2/apps/${id}/network/dns`, { key })
    const { value } = records.find(({ name }) => name === hostname)!
    await sleep(2000) // its first look, which finds nothing
    dns.set(value, 'A', '127.0.0.1')
    dns.set(hostname, 'CNAME', value)
    const began = performance.now()
    await set(hostname)
    for (const end = began + 60_000; ; await sleep(pollMs)) {
      const answer = await askHttps(tlsPort, hostname, ca).catch(() => null) // there is no certificate yet
      if (answer?.status === 200 && answer.body.includes(text)) return performance.now() - began
      if (performance.now() > end) throw new Error(`${hostname} does not answer by https.`)
    }
  }
}

/** The calls to an authority one after the other, with a server that has nothing but the answers to it. */
async function bareCalls({ directoryUrl, ca }: Pebble, httpPort: number) {
  const answers = new Map<string, string>()
  const server = createServer((incoming, answer) => {
    answer.end(answers.get(incoming.url!.slice('/.well-known/acme-challenge/'.length)))
  }).listen(httpPort, '127.0.0.1')
  let account: AcmeAccount | null = null
  const authority = acmeAuthority({
    ...{ settings: { directoryUrl, email: null, externalAccount: null }, ca },
    accounts: {
      find: async () => account,
      keep: async (_, kept) => {
        account ??= kept
        return account
      },
      register: async (_, url) => {
        account = { ...account!, url }
      },
    },
  })
  const until = async (url: string, status: OrderStatus) => {
    for (;;) {
      const order = await authority.look(url)
      if (order.status === status) return
      if (order.status === 'invalid') throw new Error(order.problem?.message ?? 'The order has failed.')
      await sleep(pollMs)
    }
  }
  return {
    async certify(): Promise<number> {
      const hostname = newName('bare')
      dns.set(hostname, 'A', '127.0.0.1')
      const began = performance.now()
      const { url, authorizations } = await authority.order({ hostnames: [hostname] })
      for (const { kind, token, value } of authorizations.flatMap(({ challenges }) => challenges))
        if (kind === 'http-01') answers.set(token, value)
      await authority.answer(url, 'http-01')
      await until(url, 'ready')
      const { csr } = await newRequest([hostname])
      await authority.finalize(url, csr)
      await until(url, 'valid')
      await authority.collect(url, csr)
      return performance.now() - began
    },
    stop: () => server.close(),
  }
}
