import test from 'ava'
import { TestDns } from '../servers/dns.ts'
import { Pebble } from '../servers/pebble.ts'
import { type PlatformOptions, type TestPlatform, testPlatform } from './platform.ts'
import { workflowBundle } from './workflow-bundle.ts'

export interface DomainPlatform {
  platform: TestPlatform
  /** What the platform and the authority ask. */
  dns: TestDns
  /** Issues the platform's certificates. */
  pebble: Pebble
}

/**
 * Call it once at the top level of a test file: a platform, by default without a host of containers, whose proxy serves https, with a name server and a
 * certificate authority on loopback.
 */
export function testDomainPlatform(
  options: Pick<PlatformOptions, 'worker' | 'hosts'> = {},
): () => Promise<DomainPlatform> {
  let dns: TestDns
  let pebble: Pebble
  const started = testPlatform({
    ...{ hosts: {}, ...options, edge: { EDGE_TLS: 'acme' } },
    async settings({ port, tlsPort, config }) {
      dns = await TestDns.start()
      pebble = await Pebble.start({ dns: dns.address, httpPort: port })
      return {
        ...{ EDGE_TLS: 'acme', EDGE_PORT: String(port), EDGE_TLS_PORT: String(tlsPort) },
        ...{ ACME_DIRECTORY_URL: pebble.directoryUrl, ACME_CA_BUNDLE: pebble.ca, DNS_SERVERS: dns.address },
        ...{ EDGE_PUBLIC_ADDRESSES: '127.0.0.1', EDGE_PUBLIC_PORT: String(port) },
        EDGE_CONTROL_SOCKET: config.edge.controlSocket,
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
  return async () => ({ platform: await started, dns, pebble })
}
