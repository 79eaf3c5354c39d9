import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { newAppId } from '../../policy/ids.ts'
import type { TestUser } from '../kit/actors/api.ts'
import { operatorCommand } from '../kit/actors/operator-command.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { type Entry, startEntry } from '../kit/platform/entry.ts'
import { type Deployed, testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { nodeProgram } from '../kit/programs.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { copyRows } from '../kit/servers/database-copy.ts'
import { zipOf } from '../kit/zips.ts'

const processes: Entry[] = []
const end = async () => {
  for (const entry of processes.splice(0)) await entry.kill('SIGKILL')
}
test.serial.after.always('end the processes', end)

const started = testPlatform({ hosts: {}, worker: false })
const empty = testDatabase()
const another = testDatabase()
const older = testDatabase()

type Name = 'host' | 'worker' | 'api'

async function begin(url: string, ...names: Name[]): Promise<Entry[]> {
  const platform = await started
  const env = { ...platform.hostSettings('a'), DATABASE_URL: url }
  const opened = names.map(name => startEntry(name, env))
  processes.push(...opened)
  return opened
}

/** How it ended, or that it has not. */
const ending = (entry: Entry) => Promise.race([entry.ended, entry.ready.then(() => 'it is ready')])

const adopt = async (url: string, own: Record<string, string> = {}) =>
  operatorCommand({ ...(await started).base.settings, DATABASE_URL: url, ...own }, 'adopt', '--yes')

let ana: TestUser
let kept: Deployed
let late: Deployed[]
let there: Record<string, string[]>
let runs: Record<string, string>

/** What is at the host, in one order. */
async function remains(): Promise<Record<string, string[]>> {
  const all = await (await started).remains()
  return Object.fromEntries(Object.entries(all).map(([kind, names]) => [kind, names.toSorted()]))
}

/** When each container of the host was started, by name. */
async function running(): Promise<Record<string, string>> {
  const names = (await (await started).remains()).containers
  const infos = await Promise.all(names.map(name => bareDocker.getContainer(name).inspect()))
  return Object.fromEntries(infos.filter(({ State }) => State.Running).map(info => [info.Name, info.State.StartedAt]))
}

async function commit(url: string, text: string): Promise<string> {
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(zipOf(nodeProgram(text).files))]), 'app.zip')
  const headers = { authorization: ana.key }
  const answer = await fetch(`${url}/v2/apps/${kept.id}/commit`, { method: 'POST', headers, body: form })
  if (answer.status !== 200) throw new Error(await answer.text())
  return answer.headers.get('x-operation-id') as string
}

test.serial.before('four applications, of which an older copy of the database knows two', async t => {
  t.timeout(240_000)
  const platform = await started
  const { base, db, api } = platform
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
  platform.clearLater('a')
  for (const entry of await begin(base.url, 'host', 'worker')) await entry.ready
  const deployed = async (user: TestUser, text: string) => platform.deploy(user, nodeProgram(text), { MEMORY: '512' })
  ana = await api.makeUser()
  ;[kept] = await Promise.all([deployed(ana, 'kept'), deployed(await api.makeUser(), 'kept alongside')])
  await copyRows(db, (await older).db)
  late = await Promise.all(['late', 'later'].map(async text => deployed(await api.makeUser(), text)))
  t.like(await platform.ended(await commit(api.url, 'what the older one forgets')), { state: 'success' })
  await platform.serves(kept.domain, 'what the older one forgets')
  const replaced = async () => !(await platform.remains()).containers.includes(`berth-${kept.id}-1`)
  await platform.until(replaced, 60, 'the first version is retired')
  await end()
  there = await remains()
  runs = await running()
  t.is(Object.keys(runs).length, 4)
})

test.serial(
  'with an empty database or one of another installation each process exits, and nothing is touched',
  async t => {
    t.timeout(180_000)
    const other = await another
    await other.db('settings').insert({ name: 'installation', value: JSON.stringify({ id: 'another', store: true }) })
    const entries = [
      ...(await begin((await empty).url, 'host', 'worker', 'api')),
      ...(await begin(other.url, 'host', 'worker', 'api')),
    ]
    for (const entry of entries) {
      t.is(await ending(entry), 1, entry.output())
      t.regex(
        entry.output(),
        /The data folder \S+ belongs to installation .+ If this is a mistake, .+ berth adopt --yes/,
      )
    }
    t.deepEqual(await remains(), there)
    t.deepEqual(await running(), runs)
    await end()
  },
)

test.serial('berth adopt that is killed anywhere, or was a mistake, touches nothing and can be undone', async t => {
  t.timeout(240_000)
  const platform = await started
  const { url, db } = await another
  for (const point of ['db.transaction:before', 'store.put:after', 'db.transaction:after']) {
    await adopt(url, { CRASH_POINT: point })
    t.is((await db('audit').where({ action: 'installation.adopt' })).length, 0, `cut at ${point}`)
    for (const entry of await begin(platform.base.url, 'host')) t.is(await ending(entry), 1, entry.output())
  }
  t.is((await adopt(url)).code, 0)
  const [host] = await begin(url, 'host')
  await host!.ready
  const twice = async () => host!.output().split('so it is probably the wrong one, and nothing is touched').length > 2
  await platform.until(twice, 90, 'it has looked around twice, once a minute')
  await end()
  t.deepEqual(await remains(), there)
  t.deepEqual(await running(), runs)
  const back = await adopt(platform.base.url)
  t.is(back.code, 0, back.stderr)
})

/** A path in the folder of the host. */
const atHost = async (name: string) => {
  const platform = await started
  return join(platform.base.folder, 'hosts', platform.hostId('a'), name)
}

test.serial('with a database older than two applications they are quarantined, only a few an hour', async t => {
  t.timeout(240_000)
  const platform = await started
  const { url } = await older
  // More unknown applications: the limit is three an hour.
  const more = [newAppId(), newAppId(), newAppId()]
  for (const id of more) writeFileSync(join(await atHost('images'), `${id}.ext4`), '')
  const [host, worker] = await begin(url, 'host', 'worker')
  await Promise.all([host!.ready, worker!.ready])
  const { api, url: apiUrl } = await platform.startApiProcess({ DATABASE_URL: url })
  processes.push(api)
  const aside = async () => {
    const now = Object.keys(await running())
    const { volumes } = await platform.remains()
    return late.every(({ id }) => !now.includes(`/berth-${id}-1`) && !volumes.includes(id))
  }
  await platform.until(aside, 60, 'what it does not know is stopped and set aside')
  t.regex(host!.output(), /the database does not know\. It is removed after 7 days, and restored if/)

  // The number of the release that it has forgotten is given out once more, and its files lie there.
  const operationId = await commit(apiUrl, 'what came after')
  const state = async () => (await (await older).db('operations').where({ id: operationId }).first())?.state
  await platform.until(async () => (await state()) === 'success', 90, 'a deploy goes on')
  t.is((await (await older).db('apps').where({ id: kept.id }).first()).release, 2)
  await platform.serves(kept.domain, 'what came after')

  const { containers, volumes } = await platform.remains()
  for (const { id } of late) t.true(containers.includes(`berth-${id}-1`), 'no container is removed')
  t.is(more.filter(id => volumes.includes(id)).length, 2)
  t.is(Object.keys(JSON.parse(readFileSync(await atHost('strays.json'), 'utf8'))).length, 3)
  await end()
})

test.serial('with the right database again, quarantined applications are back with their files', async t => {
  t.timeout(180_000)
  const platform = await started
  for (const entry of await begin(platform.base.url, 'host', 'worker')) await entry.ready
  const [first, second] = late
  await platform.serves(first!.domain, 'late', 60)
  await platform.serves(second!.domain, 'later', 60)
  const { volumes } = await platform.remains()
  for (const { id } of late) t.true(volumes.includes(id))
})
