import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { pebbleBinary } from '../../../cli/test/pebble.ts'
import { comesTrue } from '../comes-true.ts'

export interface PebbleOptions {
  /** `address:port` of the resolver that it asks. */
  dns: string
  /** Port at which it validates HTTP-01; a real authority has 80. */
  httpPort: number
  /** How long its certificates are valid. */
  lifeSeconds?: number
  /** Accounts of its own that ACME accounts must be bound to: key by id, base64url. */
  externalAccounts?: Record<string, string>
  /** Names that it refuses. */
  blocked?: string[]
}

/**
 * A real certificate authority on loopback. It has all in memory: started again it knows no account, no order and no certificate of
 * before, and has another root. It refuses one nonce in twenty, so that clients are seen to repeat.
 */
export class Pebble {
  directoryUrl = ''
  /** Signed the certificate of the directory. PEM. */
  ca = ''
  readonly #folder = mkdtempSync(join(tmpdir(), 'berth-pebble-'))
  #management = ''
  #dns = ''
  #process: ChildProcess | undefined

  static async start({ dns, httpPort, lifeSeconds, externalAccounts, blocked }: PebbleOptions): Promise<Pebble> {
    const pebble = new Pebble()
    const [port, managementPort] = [await unusedPort(), await unusedPort()]
    const authority = await makeAuthority()
    const server = {
      kind: 'server',
      commonName: 'pebble',
      names: ['localhost'],
      addresses: ['127.0.0.1'],
      days: 2,
    } as const
    const own = await issueCertificate(authority, server)
    const path = (name: string) => join(pebble.#folder, name)
    writeFileSync(path('cert.pem'), own.certificate)
    writeFileSync(path('key.pem'), own.privateKey)
    const settings = {
      listenAddress: `127.0.0.1:${port}`,
      managementListenAddress: `127.0.0.1:${managementPort}`,
      ...{ certificate: path('cert.pem'), privateKey: path('key.pem'), httpPort, tlsPort: 1, keyAlgorithm: 'ecdsa' },
      domainBlocklist: blocked ?? [],
      ...(externalAccounts && { externalAccountBindingRequired: true, externalAccountMACKeys: externalAccounts }),
      // So that a client need not wait for seconds between looks.
      retryAfter: { authz: 1, order: 1 },
      profiles: { default: { description: 'of the tests', validityPeriod: lifeSeconds ?? 90 * 86_400 } },
    }
    writeFileSync(path('config.json'), JSON.stringify({ pebble: settings }))
    pebble.directoryUrl = `https://127.0.0.1:${port}/dir`
    pebble.#management = `https://127.0.0.1:${managementPort}`
    pebble.ca = authority.certificate
    pebble.#dns = dns
    try {
      await pebble.start()
    } catch (error) {
      await pebble.remove()
      throw error
    }
    return pebble
  }

  /** Starts it again, on the same ports. */
  async start(): Promise<void> {
    const program = await pebbleBinary(text => process.stderr.write(`${text}\n`))
    const child = spawn(program, ['-config', join(this.#folder, 'config.json'), '-dnsserver', this.#dns], {
      stdio: ['ignore', 'ignore', 'inherit'],
      // Each order is validated anew, and without the pauses of a real authority.
      env: { PEBBLE_VA_NOSLEEP: '1', PEBBLE_AUTHZREUSE: '0' },
    })
    this.#process = child
    await comesTrue(async () => {
      if (child.exitCode !== null) throw new Error(`Pebble exited with ${child.exitCode}.`)
      return (await this.#send(this.directoryUrl).catch(() => null)) !== null
    })
  }

  /** Ends it, as an authority that is away. */
  async stop(): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }

  /** Ends it for good. */
  async remove(): Promise<void> {
    await this.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** The root that signs its certificates. PEM. */
  root(): Promise<string> {
    return this.#send(`${this.#management}/roots/0`)
  }

  /** What it answers about the renewal of a certificate, from now on. */
  async setRenewal(certificate: string, answer: object): Promise<void> {
    const body = JSON.stringify({ Certificate: certificate, ARIResponse: JSON.stringify(answer) })
    await this.#send(`${this.#management}/set-renewal-info/`, body)
  }

  #send(url: string, body?: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const sent = request(url, {
        ca: this.ca,
        method: body === undefined ? 'GET' : 'POST',
        agent: false,
        timeout: 5000,
        headers: { 'user-agent': 'berth-test' },
      })
      sent.on('error', reject)
      sent.on('timeout', () => sent.destroy(new Error('Pebble is silent.')))
      sent.on('response', async answer => {
        let text = ''
        for await (const chunk of answer) text += chunk
        answer.statusCode === 200 ? resolve(text) : reject(new Error(`Pebble answered ${answer.statusCode}: ${text}`))
      })
      sent.end(body)
    })
  }
}
