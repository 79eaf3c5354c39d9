import test, { type ExecutionContext } from 'ava'
import { makeAuthority } from '../../../activities/certificates/authority.ts'
import { databasesCommand } from '../../../cli/databases/databases.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import {
  type Credentials,
  connectBare,
  type Driver,
  type DriverRun,
  drivers,
  driversApp,
  type Language,
  runExample,
  variablesOf,
} from '../../kit/databases/drivers.ts'
import { bareDocker } from '../../kit/hosts/host-remains.ts'
import { type Deployed, testPlatform } from '../../kit/platform/platform.ts'

const started = testPlatform({
  settings: {
    DATABASE_ENGINES: 'mongo,mysql,redis,postgres',
    MONGO_STAND_IN: 'on',
    HOST_FIREWALL: 'auto',
    DISK_MB_PER_256MB: '256',
  },
})

/** Without a cache the images are created first, alongside the other tests. */
const imageSeconds = 1200
const timeoutMs = 1_500_000
/** Packages of the drivers come from a registry. */
const installSeconds = 600

interface Database extends Credentials {
  id: string
}

const offers = [
  ['redis', '8', 512],
  ['postgres', '17', 1024],
  ['mysql', '9', 1024],
  ['mongo', '8', 1024],
] as const

let made: ReturnType<typeof provision> | undefined
const scene = () => {
  made ??= provision()
  return made
}

/** A database of every engine, and an application in each language that has the drivers, both of one account. */
async function provision() {
  const platform = await started
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  await platform.until(
    async () => {
      const [host] = await platform.db('hosts').select('database_images')
      return ['redis:8', 'postgres:17', 'mysql:9', 'mongo-stand-in:8'].every(
        image => host.database_images[`berth/${image}`] === 'ready',
      )
    },
    imageSeconds,
    'the images of all engines',
  )
  const send = async (method: string, path: string, body?: unknown) => {
    const answer = await as.request(method, path, body === undefined ? {} : { body: JSON.stringify(body) })
    if (answer.status !== 200) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text}`)
    return answer.body.response
  }
  const deploy = async (language: Language) => {
    const app = await platform.upload(ana, driversApp(language))
    const operation = await platform.ended(app.operationId, installSeconds)
    if (operation.state !== 'success') throw new Error(`${language}: ${JSON.stringify(operation)}`)
    return app
  }
  const databases = {} as Record<EngineName, Database>
  for (const [type, version, memory] of offers)
    databases[type] = await send('POST', '/v2/databases', { name: type, type, version, memory })
  const apps: Record<Language, Deployed> = { node: await deploy('node'), python: await deploy('python') }

  /** Gives the applications the URLs, as an operator does, and restarts them. */
  async function attach(): Promise<void> {
    for (const { id } of Object.values(apps))
      for (const database of Object.values(databases)) {
        const words = ['databases', 'attach', database.id, id]
        const { code, stderr } = await operatorHere([databasesCommand], platform.base.settings, ...words)
        if (code !== 0) throw new Error(stderr)
      }
    await Promise.all(Object.values(apps).map(({ id }) => send('POST', `/v2/apps/${id}/restart`)))
    await Promise.all(Object.values(apps).map(({ domain }) => platform.serves(domain, 'serves')))
  }

  /** What an application answers. */
  const inside = async ({ language }: Driver, path: string) =>
    JSON.parse((await platform.page(apps[language].domain, { path })).body)

  /** What the application counts with the connections that it has. */
  const visited = (driver: Driver) =>
    repeated(
      () => inside(driver, `/visit/${driver.name}`),
      ({ visits }) => visits !== undefined,
    )

  return { platform, send, databases, apps, attach, inside, visited }
}

/** The same of every driver. */
const ofEach = <T>(work: (driver: Driver) => Promise<T>): Promise<[Driver, T][]> =>
  Promise.all(drivers.map(async driver => [driver, await work(driver)] as [Driver, T]))

const authority = /self-signed certificate|unable to (verify|get)|certificate verify failed/i
const anotherName = /does not match|mismatch/i

/** A certificate that nothing here is signed by, as an owner would read it. */
const foreignCertificate = async () => Buffer.from((await makeAuthority()).certificate).toString('base64')

/** Repeats what a busy machine hinders, up to ten times: a connection may take longer than its driver or its engine waits. */
async function repeated<T>(work: () => Promise<T>, isPlain: (outcome: T) => boolean): Promise<T> {
  for (let time = 1; ; time++) {
    const outcome = await work()
    if (isPlain(outcome) || time === 10) return outcome
  }
}

const accepted = async (work: () => Promise<DriverRun>) => repeated(work, ({ code }) => String(code) === '0')
const refused = async (work: () => Promise<DriverRun>, reason: RegExp) =>
  repeated(work, ({ code, stderr }) => String(code) === '0' || reason.test(stderr))

function isRefused(t: ExecutionContext, { name }: Driver, { code, stdout, stderr }: DriverRun, reason: RegExp): void {
  t.not(String(code), '0', name)
  t.is(stdout, '', name)
  t.regex(stderr, reason, name)
}

/** Drivers that give up sooner than after their 30 s say the same. */
const hastily = (url: string): string => (url.includes('?') ? `${url}&serverSelectionTimeoutMS=5000` : url)

test.serial('drivers verify the server and use it over the published port, with what the API returned', async t => {
  t.timeout(timeoutMs)
  const { databases } = await scene()
  const counts = new Map(offers.map(([engine]) => [engine as EngineName, 0]))
  for (const language of ['node', 'python'])
    for (const driver of drivers.filter(each => each.language === language)) {
      const { engine, name } = driver
      const run = await accepted(() => runExample(driver, variablesOf(engine, databases[engine])))
      t.is(run.code, 0, `${name}: ${run.stderr}`)
      const [first, second] = JSON.parse(run.stdout)
      t.true(first > counts.get(engine)!, `${name} finds what others wrote`)
      t.is(second, first + 1, name)
      counts.set(engine, second)
    }
})

test.serial('no driver accepts a server that another authority has signed', async t => {
  t.timeout(timeoutMs)
  const { databases } = await scene()
  const certificate = await foreignCertificate()
  const runs = await ofEach(driver =>
    refused(() => {
      const connection_url = hastily(databases[driver.engine].connection_url)
      return runExample(driver, variablesOf(driver.engine, { connection_url, certificate }))
    }, authority),
  )
  for (const [driver, outcome] of runs) isRefused(t, driver, outcome, authority)
})

/** By default some verify the server with the authorities of the machine, some do not verify it, and some do not even ask for TLS. */
const bare: Record<string, RegExp> = {
  pg: /no encryption/,
  mysql2: /Access denied/,
  ioredis: authority,
  mongodb: authority,
  use_psycopg: /^accepted$/,
  use_pymysql: /^accepted$/,
  use_redis: authority,
  use_pymongo: authority,
}

test.serial('with the URL alone, drivers connect over TLS or not at all', async t => {
  t.timeout(timeoutMs)
  const { databases } = await scene()
  for (const [{ name }, outcome] of await ofEach(driver =>
    repeated(
      () => connectBare(driver, databases[driver.engine].connection_url),
      words => words === 'accepted' || bare[driver.name]!.test(words),
    ),
  ))
    t.regex(outcome, bare[name]!, name)
})

test.serial('applications verify the server by its name, with the URL that was attached', async t => {
  t.timeout(timeoutMs)
  const { platform, send, databases, apps, attach, inside, visited } = await scene()
  const certificates = Object.fromEntries(
    Object.entries(databases).map(([engine, { certificate }]) => [`${engine.toUpperCase()}_CERTIFICATE`, certificate]),
  )
  for (const { id } of Object.values(apps)) await send('POST', `/v2/apps/${id}/envs`, { envs: certificates })
  await attach()
  for (const [{ name }, { visits, error }] of await ofEach(visited)) t.true(visits > 4, `${name}: ${error}`)

  const certificate = await foreignCertificate()
  const outcomes = await ofEach(async driver => {
    const { id, connection_url: url } = databases[driver.engine]
    const run = (host: string, change: Partial<Credentials> = {}): Promise<DriverRun> => {
      const credentials = { connection_url: hastily(url.replace(/@.*?:/, `@${host}:`)), certificate, ...change }
      return inside(driver, `/apart/${driver.name}?${new URLSearchParams(variablesOf(driver.engine, credentials))}`)
    }
    const [container] = await bareDocker.listContainers({ filters: { label: [`berth.database=${id}`] } as never })
    const own = { certificate: databases[driver.engine].certificate }
    const hostname = databaseHostname(id, platform.base.config.databases.domain)
    // Within the network the beginning of the container's id leads there too, but the certificate does not name it.
    return Promise.all([
      accepted(() => run(hostname, own)),
      refused(() => run(hostname), authority),
      refused(() => run(container!.Id.slice(0, 12), own), anotherName),
    ])
  })
  for (const [driver, [verified, foreign, renamed]] of outcomes) {
    t.is(String(verified.code), '0', `${driver.name}: ${verified.stderr}`)
    isRefused(t, driver, foreign, authority)
    isRefused(t, driver, renamed, anotherName)
  }
})

/** What a driver says of the former password; the pool of psycopg writes the reason into the log only. */
const refusedPassword = /authentication failed|access denied|WRONGPASS|invalid username-password|PoolTimeout/i

test.serial('another password ends the connections of pools; they connect again with the new one', async t => {
  t.timeout(timeoutMs)
  const { send, databases, attach, inside, visited } = await scene()
  const before = new Map((await ofEach(visited)).map(([{ name }, { visits }]) => [name, visits as number]))
  for (const { id } of Object.values(databases))
    await send('POST', `/v2/databases/${id}/credentials/reset`, { reset: 'password' })
  const withFormer = await ofEach(driver =>
    repeated(
      () => inside(driver, `/visit/${driver.name}`),
      ({ visits, error }) => visits !== undefined || refusedPassword.test(error),
    ),
  )
  for (const [{ name }, { visits, error }] of withFormer) {
    t.is(visits, undefined, name)
    t.regex(error, refusedPassword, name)
  }
  await attach()
  for (const [{ name }, { visits, error }] of await ofEach(visited))
    t.true(visits > before.get(name)!, `${name}: ${error}`)
})
