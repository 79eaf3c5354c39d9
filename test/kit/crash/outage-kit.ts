import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { startGitServer } from '../git/git-server.ts'
import { type Entry, startEntry } from '../platform/entry.ts'
import { type TestPlatform, testPlatform } from '../platform/platform.ts'
import { workflowBundle } from '../platform/workflow-bundle.ts'
import { nodeProgram, slowProgram } from '../programs.ts'
import { testDatabase } from '../servers/database.ts'
import { dockerAddress } from '../servers/docker.ts'
import { type Relay, type RelayMode, relayTo } from '../servers/relay.ts'
import { testTemporal } from '../servers/temporal.ts'
import { zipOf } from '../zips.ts'
import { Rental } from './databases/rental.ts'
import { type Linked, linked } from './deploy-crash-kit.ts'

const services = ['Postgres', 'Temporal', 'Docker'] as const
type Service = (typeof services)[number]

/** What can be down: one service; or all together, with Postgres hanging, Temporal cut off and the host process frozen. */
export const outages = [...services, 'everything at once'] as const
type Outages = (typeof outages)[number]

interface Fault {
  name: Outages
  /** What people and providers are answered meanwhile. */
  answer: 200 | 503
  begin(): Promise<void>
  end(): Promise<void>
}

/**
 * A platform of processes, each of which reaches Postgres, Temporal and the engine over lines that can be cut: to them a service
 * whose line is cut is one that was stopped. Await it once at the top level of a test file.
 */
export async function outageKit() {
  const git = await startGitServer()
  const folder = await mkdtemp(join(tmpdir(), 'berth-lines-'))
  const lines = new Map<Service, Relay>()
  const database = testDatabase().then(async ({ db, url }) => {
    const through = new URL(url)
    lines.set('Postgres', await relayTo({ host: '127.0.0.1', port: Number(through.port) }))
    through.port = String(lines.get('Postgres')?.port)
    return { db, url: through.href }
  })
  const temporal = testTemporal().then(async ({ address, queuePrefix }) => {
    lines.set('Temporal', await relayTo({ host: '127.0.0.1', port: Number(address.split(':')[1]) }))
    return { address: `127.0.0.1:${lines.get('Temporal')?.port}`, queuePrefix }
  })
  const engine = join(folder, 'docker.sock')
  const settings = { GIT_ALLOWED_HOSTS: git.host, DOCKER_HOST: `unix://${engine}`, DATABASE_ENGINES: 'redis' }
  const options = { hosts: {}, worker: false, settings, database: () => database, temporal: () => temporal }
  const started = testPlatform(options)
  const processes: ReturnType<typeof kept>[] = []
  let url = ''

  test.serial.before('start its processes', async t => {
    t.timeout(120_000)
    const platform = await started
    lines.set('Docker', await relayTo({ path: new URL(dockerAddress).pathname }, engine))
    platform.base.settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
    platform.clearLater('a')
    processes.push(kept(() => startEntry('worker', platform.base.settings)))
    processes.push(kept(() => startEntry('host', platform.hostSettings('a'))))
    url = (await platform.startApiProcess()).url
    await Promise.all(processes.map(process => process.ready))
  })
  test.after.always('end the processes and the lines', async () => {
    await Promise.all(processes.map(process => process.end()))
    await Promise.all([...lines.values()].map(line => line.close()))
    await git.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const mode = (service: Service, next: RelayMode) => (lines.get(service) as Relay).mode(next)
  const one = (name: Service): Fault => ({
    name,
    answer: name === 'Postgres' ? 503 : 200,
    begin: () => mode(name, 'cut'),
    end: () => mode(name, 'pass'),
  })
  const three: Fault = {
    name: outages[3],
    answer: 503,
    async begin() {
      hostProcess().child.kill('SIGSTOP')
      await mode('Temporal', 'cut')
      await mode('Postgres', 'hang')
    },
    // The host wakes first: it cannot find out whether it still is the host.
    async end() {
      const { child, output } = hostProcess()
      const said = output().length
      child.kill('SIGCONT')
      const unsure = async () => output().slice(said).includes('the lease of the host was not renewed')
      await (await started).until(unsure, 60, 'the host asks for its lease')
      await mode('Temporal', 'pass')
      await mode('Postgres', 'pass')
    },
  }
  const hostProcess = () => processes[1]!.current()

  return async (t: ExecutionContext, name: Outages, seconds: number): Promise<void> => {
    const platform = await started
    const app = await linked(platform, git)
    const database = await Rental.open({ platform }, 'redis')
    await database.demand('create')
    const outage = new Outage(t, platform, app, database, url)
    await outage.survive(name === three.name ? three : one(name as Service), seconds)
    t.log(`started again: ${processes.map(process => process.restarts()).join(', ')}`)
  }
}

/** A process that is started again when it ends, as the supervisor does. */
function kept(start: () => Entry) {
  let entry = start()
  let ending = false
  let restarts = 0
  const watched = (async () => {
    for (await entry.ended; !ending; await entry.ended) {
      restarts++
      await sleep(500)
      entry = start()
    }
  })()
  return {
    ready: entry.ready,
    current: () => entry,
    restarts: () => restarts,
    async end() {
      ending = true
      await entry.kill('SIGKILL')
      await watched
    },
  }
}

/** Something that is away in the middle of a deploy, with a push and a commit meanwhile, while an application and a database serve. */
class Outage {
  constructor(
    readonly t: ExecutionContext,
    readonly platform: TestPlatform,
    readonly app: Linked,
    readonly database: Rental,
    readonly url: string,
  ) {
    const { hook, repository } = app
    repository.hook = { url: url + hook, provider: 'github' }
  }

  async survive({ name, answer: away, begin, end }: Fault, seconds: number): Promise<void> {
    const { t, platform, app, database } = this
    const opened = await app.repository.push(slowProgram('begun before', 5).files)
    t.is(opened.reply?.status, 200, opened.reply?.text)
    const building = async () => (await platform.remains()).containers.includes(`berth-${app.id}-2-build`)
    await platform.until(building, 60, 'it is being built')

    await begin()
    database.write()
    const back = Date.now() + seconds * 1000
    app.repository.hook = { url: this.url + app.hook, provider: 'github', deliveryId: `while ${name} is away` }
    const { reply } = await app.repository.push(nodeProgram('pushed meanwhile').files)
    t.is(reply?.status, away, reply?.text)
    t.is((await this.commit()).status, away)
    while (Date.now() < back) {
      t.is((await this.ask('GET', '/deployments')).status, away, 'the state is true meanwhile')
      t.is((await platform.page(app.domain)).body, 'the first', 'the version before serves on')
      const written = database.acknowledged.length
      await platform.until(async () => database.acknowledged.length > written, 10, 'the database serves on')
      t.is((await this.deployments({ state: 'success' })).length, 0, 'no deployment is shown as done')
      await sleep(1000)
    }
    const stored = away === 503 ? 1 : 3
    t.is((await this.deployments()).length, stored, 'a 503 has left no trace, a 200 is a deployment')

    await database.rest()
    await end()
    const served = async () => (await this.ask('GET', '/deployments')).status === 200
    await platform.until(served, 30, 'the API answers again')
    const again = await app.repository.deliver()
    t.regex(again.text, away === 503 ? /^queued:/ : /^duplicate:/)
    if (away === 503) t.is((await this.commit()).status, 200)
    await this.deployedOnce()
  }

  /** Three answers of 200 are three deployments, each with one end; the last of them serves, alone. */
  private async deployedOnce(): Promise<void> {
    const { t, platform, app } = this
    const rows = await this.deployments()
    t.is(rows.length, 3)
    for (const { id, operation_id } of rows) {
      t.like(await platform.ended(operation_id, 150), { state: 'success', code: null })
      const events = await platform.db('deployment_events').where({ deployment_id: id }).orderBy('id')
      const states = ['pending', 'clone', 'commit', 'restarting', 'success']
      t.deepEqual(
        events.map(({ state }) => state),
        states,
      )
    }
    await platform.serves(app.domain, 'committed meanwhile')
    const own = async () => (await platform.remains()).containers.filter(name => !name.startsWith('berth-db-'))
    const alone = async () => (await own()).join() === `berth-${app.id}-4`
    await platform.until(alone, 60, 'the old versions are retired')
    t.is((await this.ask('DELETE', '')).status, 200)
    t.is((await this.database.demand('delete')).status, 200)
  }

  private deployments(where: object = {}) {
    const { platform, app } = this
    return platform
      .db('deployments')
      .where({ app_id: app.id, ...where })
      .where('release', '>', 1)
      .orderBy('release')
  }

  private commit(): Promise<Response> {
    const form = new FormData()
    const zip = zipOf(nodeProgram('committed meanwhile').files)
    form.append('file', new Blob([new Uint8Array(zip)]), 'app.zip')
    return this.ask('POST', '/commit', form)
  }

  private ask(method: string, path: string, body?: FormData): Promise<Response> {
    const { app, url } = this
    return fetch(`${url}/v2/apps/${app.id}${path}`, { method, body, headers: { authorization: app.owner.key } })
  }
}
