import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { recordStarted } from '../../../db/apps/apps.ts'
import { recordBoot } from '../../../db/hosts/host-boots.ts'
import { rows } from '../rows/rows.ts'
import { TestDns } from '../servers/dns.ts'
import { startOrigin } from '../servers/origin.ts'
import { Pebble } from '../servers/pebble.ts'
import { type PlatformOptions, type TestPlatform, testPlatform } from './platform.ts'
import { workflowBundle } from './workflow-bundle.ts'

export interface DomainPlatform {
  platform: TestPlatform
  /** What the platform and the authority ask. */
  dns: TestDns
  /** Where the worker's own name server listens, if `own` has an ACME_DNS_DOMAIN, which `dns` has delegated to it. */
  dnsPort: number
  /** Issues the platform's certificates. */
  pebble: Pebble
}

/**
 * Call it once at the top level of a test file: a platform, by default without a host of containers, whose proxy serves https, with a name server and a
 * certificate authority on loopback. `own`: further settings of platform and proxy.
 */
export function testDomainPlatform({
  own = {},
  ...options
}: Pick<PlatformOptions, 'worker' | 'hosts' | 'database' | 'temporal'> & {
  own?: Record<string, string>
} = {}): () => Promise<DomainPlatform> {
  let dns: TestDns
  let dnsPort: number
  let pebble: Pebble
  const started = testPlatform({
    ...{ hosts: {}, ...options, edge: { ...own, EDGE_TLS: 'acme' } },
    async settings({ port, tlsPort, config }) {
      dns = await TestDns.start()
      dnsPort = await unusedPort()
      if (own.ACME_DNS_DOMAIN) dns.delegate(own.ACME_DNS_DOMAIN, dnsPort)
      pebble = await Pebble.start({ dns: dns.address, httpPort: port })
      return {
        ...{ EDGE_TLS: 'acme', EDGE_PORT: String(port), EDGE_TLS_PORT: String(tlsPort) },
        ...{ ACME_DIRECTORY_URL: pebble.directoryUrl, ACME_CA_BUNDLE: pebble.ca, DNS_SERVERS: dns.address },
        ...{ EDGE_PUBLIC_ADDRESSES: '127.0.0.1', EDGE_PUBLIC_PORT: String(port) },
        ...{ EDGE_CONTROL_SOCKET: config.edge.controlSocket, EDGE_DNS_PORT: String(dnsPort) },
        ...own,
      }
    },
  })
  test.serial.before('bundle the workflows once', async t => {
    t.timeout(120_000)
    const { base } = await started
    base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
  })
  test.serial.after.always('stop authority and name server', async () => {
    await pebble?.remove()
    await dns?.stop()
  })
  return async () => ({ platform: await started, dns, dnsPort, pebble })
}

/** A web application of a user that answers with its name, by http. */
export async function servingApp({ db, base, machine }: TestPlatform, userId: string, name: string) {
  const make = rows(db)
  await make.host('h1')
  await recordBoot(db, 'h1', machine.bootId!)
  const { app } = await make.app(userId, { memoryMb: 256 })
  const origin = await startOrigin((_, answer) => {
    answer.setHeader('content-type', 'text/html')
    answer.end(`<title>${name}</title>`)
  })
  base.undo.push(() => origin.stop())
  const started = { release: 1, containerId: name, hostPort: origin.port, startedAt: new Date() }
  await recordStarted(db, app.id, { ...started, bootId: machine.bootId! })
  return { app, origin }
}
