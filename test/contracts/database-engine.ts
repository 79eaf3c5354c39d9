import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { ExecutionContext, SerialFn } from 'ava'
import { makeAuthority } from '../../activities/certificates/authority.ts'
import { EngineUnavailable, type RemoteEngine } from '../../activities/databases/port.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import { connectionsOf, engines } from '../../policy/databases/engines.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { type EngineChoice, type EngineContainer, engineContainer } from '../kit/databases/engine-container.ts'
import { type Elsewhere, placeElsewhere } from '../kit/databases/strangers.ts'
import { ownFolder } from '../kit/folders.ts'

/** The customer's connection, with the driver that most customers use. */
export interface Customer {
  /** SHA-256 of the certificate that the engine has shown, as Node writes it. */
  fingerprint: string
  /** Resolves when the engine has acknowledged the number. */
  write(number: number): Promise<void>
  /** All numbers that were written, on any connection. */
  read(): Promise<number[]>
  /** Resolves when the engine has ended the connection. */
  closed: Promise<unknown>
  end(): void
}

export interface EngineUnderTest extends EngineChoice {
  /** As the customer, over TLS, verifying the engine. Rejects when it is not admitted. */
  connect(remote: RemoteEngine, password: string): Promise<Customer>
  /** The same without TLS. */
  connectPlainly(remote: RemoteEngine, password: string): Promise<unknown>
  /** As the platform's user, over TLS. */
  connectAsPlatform(remote: RemoteEngine, password: string): Promise<unknown>
  /** The settings contain the customer's user: it exists before the first `setPassword`. */
  usersInSettings?: boolean
  /** The engine cannot identify a local process, and has no address in its rules: who knows the platform's password is admitted. */
  platformByPassword?: boolean
  /** The engine reads its certificate only when it starts. */
  certificateAtStart?: boolean
  /** Connections that the driver opens for one customer at most; default 1. */
  connectionsOfCustomer?: number
}

/**
 * The contract of every database engine, on a real one in a container. Tests share one database, in this order; resolves to it for
 * further tests of that engine.
 */
export function databaseEngineContract(
  test: SerialFn,
  name: string,
  subject: () => EngineUnderTest,
): () => Promise<EngineContainer> {
  let elsewhere: Elsewhere | undefined
  let container: EngineContainer | undefined
  let serving: ReturnType<typeof provision> | undefined

  async function provision(): Promise<EngineContainer & { elsewhere: Elsewhere; before: string[]; errors: unknown[] }> {
    const { adapter } = subject()
    elsewhere = await placeElsewhere()
    container = await engineContainer({ ...subject(), address: elsewhere.machine })
    const { errors } = await container.prepare()
    const { remote, secrets } = container
    const login = (password: string) => adapter.login(remote, password)
    const before = [await login('wrong'), await login(secrets().password)]
    await container.settled(await container.locally(adapter.setPassword))
    return { ...container, elsewhere, before, errors }
  }

  /** The database, made by the first test that runs. */
  const database = () => {
    serving ??= provision()
    return serving
  }

  test.after.always(async () => {
    await elsewhere?.clean()
    await container?.clean()
  })

  const silent = (t: ExecutionContext, error: unknown, secrets: readonly string[]) => {
    const shown = inspect(error, { depth: 12, showHidden: true })
    for (const secret of secrets) t.false(shown.includes(secret), shown)
  }

  async function unavailable(t: ExecutionContext, call: Promise<unknown>, what: string): Promise<void> {
    const error = await t.throwsAsync(call, { instanceOf: EngineUnavailable }, what)
    t.true(error?.cause instanceof Error, what)
    const { secrets } = await database()
    silent(t, error, Object.values(secrets()))
  }

  test(`${name}: an empty folder becomes a database, which admits nobody before its first password`, async t => {
    const { before, errors, secrets } = await database()
    const { usersInSettings } = subject()
    t.deepEqual(before, ['refused', usersInSettings ? 'accepted' : 'refused'])
    for (const error of errors) {
      t.true(error instanceof EngineUnavailable, String(error))
      silent(t, error, Object.values(secrets()))
    }
  })

  test(`${name}: the password is accepted over TLS, and nothing else is`, async t => {
    const { remote, secrets } = await database()
    const { adapter, connect, connectPlainly, connectAsPlatform, platformByPassword } = subject()
    const { password, platformPassword } = secrets()
    const login = (change: Partial<RemoteEngine>, given = password) => adapter.login({ ...remote, ...change }, given)
    t.is(await login({}), 'accepted')
    for (const wrong of ['wrong', platformPassword, password.toLowerCase(), `${password} `]) {
      t.is(await login({}, wrong), 'refused')
      await t.throwsAsync(connect(remote, wrong))
    }
    const other = await makeAuthority()
    await unavailable(t, login({ authority: other.certificate }), 'certificate of another authority')
    await unavailable(t, login({ servername: 'db-other.apps.localhost' }), 'certificate of another name')
    await t.throwsAsync(connectPlainly(remote, password), undefined, 'without TLS')
    await t.throwsAsync(connectAsPlatform(remote, password))
    const attempt = connectAsPlatform(remote, platformPassword)
    await (platformByPassword ? t.notThrowsAsync(attempt) : t.throwsAsync(attempt))
    const customer = await connect(remote, password)
    await customer.write(1)
    t.deepEqual(await customer.read(), [1])
    customer.end()
  })

  test(`${name}: another password ends the customer's connections, refuses the former one, and keeps the data`, async t => {
    const { remote, secrets, rotate, locally } = await database()
    const { adapter, connect } = subject()
    const open = await connect(remote, secrets().password)
    await open.write(2)
    const former = await rotate()
    await within(open.closed, 'the connection is open still')
    t.is(await adapter.login(remote, former), 'refused')
    await t.throwsAsync(connect(remote, former))
    t.is(await adapter.login(remote, secrets().password), 'accepted')
    const next = await connect(remote, secrets().password)
    t.deepEqual(await next.read(), [1, 2])
    next.end()
    // A host that lost the answer repeats the call.
    await locally(adapter.setPassword)
    t.is(await adapter.login(remote, secrets().password), 'accepted')
    t.is(await adapter.login(remote, former), 'refused')
  })

  test(`${name}: a replaced certificate is served, and open connections stay where no restart is necessary`, async t => {
    const { remote, secrets, certify, locally, settled } = await database()
    const { adapter, connect, certificateAtStart = false } = subject()
    const { password } = secrets()
    const open = await connect(remote, password)
    const certificate = await certify()
    const effect = await locally(adapter.reloadCertificate)
    t.is(effect, certificateAtStart ? 'after a restart' : 'in effect')
    if (effect === 'in effect') t.deepEqual(await open.read(), [1, 2])
    open.end()
    await settled(effect)
    const next = await connect(remote, password)
    t.not(next.fingerprint, open.fingerprint)
    t.is(next.fingerprint, new X509Certificate(certificate).fingerprint256)
    next.end()
    t.is(await adapter.login(remote, password), 'accepted')
  })

  test(`${name}: another authority takes over, and clients that trust both verify before and after`, async t => {
    const { remote, secrets, certify, locally, settled } = await database()
    const { adapter } = subject()
    const next = await makeAuthority()
    const login = (authority: string) => adapter.login({ ...remote, authority }, secrets().password)
    const renew = async (issuer?: typeof next) => {
      await certify(issuer)
      await settled(await locally(adapter.reloadCertificate))
    }
    const both = [next.certificate, remote.authority].join('')
    t.is(await login(both), 'accepted')
    await renew(next)
    for (const trusted of [both, next.certificate]) t.is(await login(trusted), 'accepted')
    await unavailable(t, login(remote.authority), 'the former authority alone')
    await renew()
    for (const trusted of [both, remote.authority]) t.is(await login(trusted), 'accepted')
  })

  test(`${name}: statements that add data are refused and admitted again, also on open connections`, async t => {
    const { traits, remote, secrets, settle, locally, start, stop } = await database()
    const { adapter, connect } = subject()
    const change = async (readOnly: boolean) => {
      traits.readOnly = readOnly
      await settle()
      await locally(adapter.admitWrites)
    }
    const before = await connect(remote, secrets().password)
    t.teardown(() => before.end())
    await change(true)
    await t.throwsAsync(before.write(1_000_001))
    const during = await connect(remote, secrets().password).catch(() => null)
    if (during) {
      t.deepEqual(await during.read(), [1, 2])
      await t.throwsAsync(during.write(1_000_002))
      during.end()
    }
    // The platform goes on to change the password, and a restart admits nothing.
    await locally(adapter.setPassword)
    await stop()
    await start()
    const restarted = await connect(remote, secrets().password).catch(() => null)
    await t.throwsAsync(async () => restarted!.write(1_000_003))
    restarted?.end()
    await change(false)
    await change(false)
    const after = await connect(remote, secrets().password)
    t.teardown(() => after.end())
    t.deepEqual(await after.read(), [1, 2])
  })

  test(`${name}: a stop is clean, and a restart keeps password and data; a data folder is initialised once only`, async t => {
    const { remote, secrets, stop, start, state, initialise, locally, folders } = await database()
    const { adapter, connect, engine } = subject()
    const { password } = secrets()
    const open = await connect(remote, password)
    await open.write(3)
    const began = Date.now()
    await stop()
    t.like(await state(), { running: false, exitCode: 0, oom: false })
    t.true(Date.now() - began < engines[engine].stop.graceSeconds * 1000, 'it was not killed')
    await within(open.closed, 'the connection is open still')
    await unavailable(t, adapter.login(remote, password), 'stopped')
    await t.throwsAsync(locally(adapter.ping), { instanceOf: EngineUnavailable })
    const files = () => readdirSync(folders.data, { recursive: true }).sort()
    const before = files()
    await initialise()
    t.deepEqual(files(), before)
    await start()
    t.is(await adapter.login(remote, password), 'accepted')
    t.is(await adapter.login(remote, 'wrong'), 'refused')
    const next = await connect(remote, password)
    t.deepEqual(await next.read(), [1, 2, 3])
    next.end()
  })

  test(`${name}: a password that was written while it was stopped is in effect after the start or the next call`, async t => {
    const { remote, secrets, stop, rotate, start } = await database()
    const { adapter, connect } = subject()
    await stop()
    await t.throwsAsync(rotate(), { instanceOf: EngineUnavailable })
    await start()
    const former = await rotate()
    t.is(await adapter.login(remote, former), 'refused')
    const customer = await connect(remote, secrets().password)
    t.deepEqual(await customer.read(), [1, 2, 3])
    customer.end()
  })

  test(`${name}: a kill during writes loses nothing that was acknowledged`, async t => {
    const { remote, secrets, kill, start } = await database()
    const { connect } = subject()
    const writer = await connect(remote, secrets().password)
    const acknowledged: number[] = []
    const writing = (async () => {
      for (let number = 100; number < 100_000; number++) {
        await writer.write(number)
        acknowledged.push(number)
      }
    })().catch(() => 'the engine was killed')
    for (const deadline = Date.now() + 60_000; acknowledged.length < 100; await sleep(20))
      if (Date.now() > deadline) return t.fail(`${acknowledged.length} writes in 60 s`)
    await kill()
    await within(writing, 'the writer waits still')
    writer.end()
    await start()
    const reader = await connect(remote, secrets().password)
    const present = new Set(await reader.read())
    reader.end()
    const lost = acknowledged.filter(number => !present.has(number))
    t.deepEqual(lost, [])
    t.true([1, 2, 3].every(number => present.has(number)))
  })

  test(`${name}: a server that says nothing, or nonsense, is unavailable, and left`, async t => {
    const { secrets, traits, remote } = await database()
    const { adapter } = subject()
    const folder = ownFolder(t)
    const texts = ['220 mail.example ready\r\n'.repeat(100), '-ERR strange\r\n'].map(text => Buffer.from(text))
    const answers = [null, ...texts, Buffer.alloc(4096, 0xff)]
    const meet = async (answer: Buffer | null, number: number) => {
      const local = join(folder, `${number}.sock`)
      const strange = [
        await strangeServer(answer, { path: local }),
        await strangeServer(answer, { host: '127.0.0.1', port: 0 }),
      ]
      const at = { ...remote, host: '127.0.0.1', port: strange[1]!.port }
      await Promise.all([
        unavailable(t, adapter.ping({ socket: local, secrets: secrets(), traits }), `ping ${number}`),
        unavailable(t, adapter.setPassword({ socket: local, secrets: secrets(), traits }), `setPassword ${number}`),
        unavailable(t, adapter.login(at, secrets().password), `login ${number}`),
      ])
      await Promise.all(strange.map(server => server.left()))
    }
    await Promise.all(answers.map(meet))
  })

  test(`${name}: passwords are in no argument, variable or log of the container`, async t => {
    const { secrets, log, visible, rotate } = await database()
    const former = await rotate()
    const passwords = [former, ...Object.values(secrets())]
    for (const [place, text] of Object.entries({ log: await log(), visible: await visible() })) {
      t.true(text.length > 100, place)
      for (const password of passwords) t.false(text.includes(password), place)
    }
  })

  test(`${name}: an outside address does not keep out others, and strangers with many neither the owner's programs nor the machine`, async t => {
    const { elsewhere, remote, secrets, traits, fromOwner, rotate, locally, state } = await database()
    const { adapter, connect, engine, connectionsOfCustomer = 1 } = subject()
    const shares = connectionsOf(engine, traits.memoryMb)
    const { addresses } = elsewhere
    const folder = ownFolder(t)
    const far = async (address: string): Promise<RemoteEngine> => {
      const { port } = remote
      return { ...remote, host: '127.0.0.1', port: await elsewhere.through(address, port, folder) }
    }
    const crowd = (each: number, from: readonly string[]) => elsewhere.crowd(remote.port, engine, from, each)
    const visits = async (at: RemoteEngine, number: number) => {
      const customer = await connect(at, secrets().password)
      await customer.write(number)
      t.true((await customer.read()).includes(number))
      customer.end()
    }

    const one = crowd(shares.elsewhere, addresses.slice(0, 1))
    await one.full()
    await comesTrue(() => one.open()[0] === shares.ofAddress)
    await visits(await far(addresses[1]!), 2_000_001)
    await one.leave()

    const many = crowd(shares.ofAddress, addresses.slice(0, 4))
    t.teardown(many.leave)
    const held = () => many.open().reduce((sum, open) => sum + open)
    await many.full()
    await comesTrue(() => held() === shares.elsewhere)
    await unavailable(t, adapter.login(await far(addresses[4]!), secrets().password), 'a client elsewhere')
    const own = await fromOwner()
    await visits(own, 2_000_002)
    // Its owner has all of his own, up to the last one.
    const customers: Customer[] = []
    t.teardown(() => {
      for (const customer of customers) customer.end()
    })
    await t.throwsAsync(async () => {
      while (customers.length <= shares.owner) customers.push(await connect(own, secrets().password))
    })
    t.true(customers.length <= shares.owner, `${customers.length}`)
    t.true((customers.length + 2) * connectionsOfCustomer >= shares.owner, `${customers.length}`)
    t.is(await adapter.login(remote, secrets().password), 'accepted')
    await locally(adapter.ping)
    const former = await rotate()
    await within(Promise.all(customers.map(({ closed }) => closed)), 'a connection is open still')
    await many.full()
    await comesTrue(() => held() === shares.elsewhere)
    t.is(await adapter.login(remote, former), 'refused')
    t.is(await adapter.login(remote, secrets().password), 'accepted')
    await visits(own, 2_000_003)
    t.like(await state(), { running: true, oom: false })
  })

  return database
}

/** Waits for what the engine does to a connection, and fails with these words after 20 s. */
export const within = (work: Promise<unknown>, words: string): Promise<unknown> =>
  withTimeout(work, 20_000, () => new Error(words))

/** A server that is no engine: answers with these bytes, or not at all. */
async function strangeServer(answer: Buffer | null, where: { path: string } | { host: string; port: number }) {
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket)
    socket.on('error', () => socket.destroy())
    // Reads on, so that it notices the other side's end.
    socket.on('data', () => answer && socket.write(answer))
  })
  server.listen(where)
  await once(server, 'listening')
  return {
    port: (server.address() as { port?: number }).port ?? 0,
    /** Resolves when every client has closed its connection, and ends the server. */
    async left(): Promise<void> {
      await within(Promise.all(sockets.map(socket => socket.closed || once(socket, 'close'))), 'a client stays')
      server.close()
      await once(server, 'close')
    },
  }
}
