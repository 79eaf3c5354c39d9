import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { labels } from '../../../activities/containers/port.ts'
import { removeStopped, stoppedList } from '../../../activities/hosts/stopped-list.ts'
import { stopApps } from '../../../cli/services/apps.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const { host: engine, run: hostId, prepare, spec, clean } = realDocker()
const folder = mkdtempSync(join(tmpdir(), 'berth-stop-'))

test.after.always('remove what is left in the engine', async () => {
  await clean()
  rmSync(folder, { recursive: true })
})

const names = async () => (await engine.list({ [labels.host]: hostId })).map(({ name }) => name).sort()

async function running(): Promise<string> {
  const one = spec(`trap 'exit 0' TERM; sleep 600 & wait`)
  await engine.create(one)
  await engine.start(one.name)
  return one.name
}

test.serial('of many containers 8 end at a time; a failure ends no others, is repeated, and then reported', async t => {
  t.timeout(180_000)
  await prepare()
  const ended = spec('exec true')
  await engine.create(ended)
  const [stubborn, slow, ...others] = await Promise.all(Array.from({ length: 10 }, running))
  let [now, most] = [0, 0]
  const failures = new Map([
    [stubborn, Number.POSITIVE_INFINITY],
    [slow, 1],
  ])
  const failing: typeof engine = {
    ...engine,
    async stop(name, graceSeconds) {
      most = Math.max(most, ++now)
      await engine.stop(name, graceSeconds).finally(() => now--)
    },
    async remove(name) {
      const failuresLeft = failures.get(name) ?? 0
      failures.set(name, failuresLeft - 1)
      if (failuresLeft > 0) throw new Error('the engine is busy')
      await engine.remove(name)
    },
  }
  const result = await stopApps({ engine: failing, hostId, folder })
  const left = [{ name: stubborn!, reason: 'the engine is busy' }]
  t.deepEqual(result, { stopped: others.length + 1, stopped_databases: 0, left })
  t.is(most, 8)
  t.deepEqual(await names(), [ended.name, stubborn!].sort(), 'what had ended before stays')

  const again = await stopApps({ engine, hostId, folder })
  t.deepEqual(again, { stopped: 1, stopped_databases: 0, left: [] })
  t.deepEqual(await names(), [ended.name], 'what was stopped only is removed too')
  t.deepEqual(readdirSync(folder), [])
})

test.serial('a host removes what was stopped with it and not removed, and nothing else', async t => {
  t.timeout(120_000)
  await prepare()
  const list = stoppedList(folder)
  const before = await names()
  const [stopped, untouched] = [await running(), await running()]
  await engine.stop(stopped, 5)
  await removeStopped(engine, hostId, list)
  t.deepEqual(await names(), [...before, stopped, untouched].sort(), 'nothing was stopped with the host')
  await list.write([stopped, untouched])
  await removeStopped(engine, hostId, list)
  t.deepEqual(await names(), [...before, untouched].sort())
  t.deepEqual(await list.read(), [])
})
