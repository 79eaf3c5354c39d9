import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { labels } from '../../activities/containers/port.ts'
import { buildNetwork } from '../../activities/containers/spec.ts'
import { databaseRole } from '../../activities/databases/names.ts'
import { downCommand } from '../../cli/down.ts'
import { openDataPlace, openInstallation } from '../../cli/installation/installation.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { realDocker } from '../kit/servers/docker.ts'

const [mine, theirs] = [realDocker(), realDocker()]

test.after.always('remove what is left in the engine', async () => {
  for (const { clean, run } of [mine, theirs]) await clean(buildNetwork(run).name)
})

/** A scratch installation whose host is `mine`, and `berth down` on it. */
async function installation(t: ExecutionContext) {
  const folder = mkdtempSync(join(tmpdir(), 'berth-down-'))
  chmodSync(folder, 0o711)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const env = {
    BERTH_DATA: join(folder, 'data'),
    HOST_NAME: mine.run,
    HOST_QUOTA: 'off',
    TEMPORAL_ADDRESS: '127.0.0.1:9',
  }
  await openInstallation(env, openDataPlace(env))
  const down = (...args: string[]) => operatorHere([downCommand], env, 'down', ...args)
  return { folder, down }
}

test.serial('everything of one installation is removed from the engine, and nothing of another', async t => {
  t.timeout(120_000)
  const { down } = await installation(t)
  const left = async ({ host, run }: typeof mine) => [
    (await host.list({ [labels.host]: run })).map(({ name }) => name),
    (await host.listNetworks({ [labels.host]: run })).map(({ name }) => name),
  ]
  const running = mine.spec('exec sleep 600')
  const ended = mine.spec('exec true')
  const other = theirs.spec('exec sleep 600')
  for (const [of, specs] of [[mine, [running, ended]] as const, [theirs, [other]] as const]) {
    await of.prepare()
    await of.host.ensureNetwork(buildNetwork(of.run))
    for (const spec of specs) {
      await of.host.create(spec)
      await of.host.start(spec.name)
    }
  }

  t.regex((await down('--forget')).stderr, /--forget needs --apps/)
  t.regex((await down('--apps', '--forget')).stderr, /confirm on: use --yes/)
  t.is((await left(mine))[0]?.length, 2, 'nothing was done')

  const { code, stdout, stderr } = await down('--apps', '--forget', '--yes', '--json')
  t.is(code, 0, stderr)
  const report = JSON.parse(stdout)
  const networksOf = ({ network, run }: typeof mine) => [network, buildNetwork(run).name].sort()
  t.deepEqual(report.containers.sort(), [running.name, ended.name].sort())
  t.deepEqual(report.networks.sort(), networksOf(mine))
  t.deepEqual(await left(mine), [[], []])
  const [containers, networks] = await left(theirs)
  t.deepEqual([containers, networks?.sort()], [[other.name], networksOf(theirs)])
  t.regex((await down('--apps', '--forget', '--yes')).stdout, /Removed 0 containers\.\nRemoved 0 networks\./)
})

test.serial(
  'a database ends by its own stop signal, and has longer to write everything than an application',
  async t => {
    t.timeout(120_000)
    const { folder, down } = await installation(t)
    const written = join(folder, 'written')
    mkdirSync(written)
    chmodSync(written, 0o777)
    await mine.prepare()
    // Longer than an application gets.
    const engine = `trap '' TERM; trap 'sleep 12; touch /data/whole; exit 0' INT; while :; do sleep 0.1; done`
    const database = mine.spec(engine, {
      labels: { [labels.host]: mine.run, [labels.role]: databaseRole },
      binds: [{ source: written, target: '/data', readOnly: false }],
      stopSignal: 'SIGINT',
    })
    for (const spec of [database, mine.spec('exec sleep 600')]) {
      await mine.host.create(spec)
      await mine.host.start(spec.name)
    }
    const { code, stdout, stderr } = await down('--apps', '--json')
    t.is(code, 0, stderr)
    t.deepEqual(JSON.parse(stdout), { was_running: false, stopped: 2, stopped_databases: 1, left: [] })
    t.deepEqual(readdirSync(written), ['whole'])
    t.deepEqual(await mine.host.list({ [labels.host]: mine.run }), [])
    t.regex((await down('--apps')).stdout, /Stopped 0 application containers\.\n$/)
  },
)
