import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { labels } from '../../activities/containers/port.ts'
import { buildNetwork } from '../../activities/containers/spec.ts'
import { downCommand } from '../../cli/down.ts'
import { openDataPlace, openInstallation } from '../../cli/installation/installation.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { realDocker } from '../kit/servers/docker.ts'

const [mine, theirs] = [realDocker(), realDocker()]

test.after.always('remove what is left in the engine', async () => {
  for (const { clean, run } of [mine, theirs]) await clean(buildNetwork(run).name)
})

test.serial('everything of one installation is removed from the engine, and nothing of another', async t => {
  t.timeout(120_000)
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
