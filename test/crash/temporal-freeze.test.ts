import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { temporalProcess } from '../../cli/services/temporal.ts'
import { removeThrowAway, throwAwayFolder } from '../../cli/test/test-postgres.ts'
import { isFrozen, readRecords } from '../../workers/supervisor/process-record.ts'
import { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { linked } from '../kit/crash/deploy-crash-kit.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { type Entry, startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { slowProgram } from '../kit/programs.ts'

const git = await startGitServer()
const folder = throwAwayFolder()
const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
const living: Entry[] = []

/** A separate Temporal, since other files keep using theirs while this one is frozen. */
async function ownTemporal() {
  const port = await unusedPort()
  await supervisor.start(await temporalProcess({ folder: null, port, uiPort: null }, () => {}))
  return { address: `127.0.0.1:${port}`, queuePrefix: 'freeze/' }
}

test.serial.after.always('end the processes', async () => {
  signal('SIGCONT')
  for (const entry of living) await entry.kill('SIGKILL')
  await supervisor.stop()
  removeThrowAway(folder)
  await git.stop()
})

const started = testPlatform({
  hosts: {},
  worker: false,
  temporal: ownTemporal,
  settings: { GIT_ALLOWED_HOSTS: git.host },
})

function signal(name: 'SIGSTOP' | 'SIGCONT'): void {
  for (const { pid } of readRecords(`${folder}/run`)) process.kill(-pid, name)
}

test.serial('Temporal freezes twice in the middle of a deploy: it ends once, and what is shown is true', async t => {
  t.timeout(240_000)
  const platform = await started
  const { settings } = platform.base
  settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
  platform.clearLater('a')
  living.push(startEntry('worker', settings), startEntry('host', platform.hostSettings('a')))
  await Promise.all(living.map(entry => entry.ready))
  const app = await linked(platform, git)
  app.repository.hook = { url: platform.api.url + app.hook, provider: 'github' }
  const { files, main } = slowProgram('the second', 5)
  const slow = { ...files, [main]: `setTimeout(() => {\n${files[main]}\n}, 4000)` }
  const pushed = await app.repository.push(slow)
  t.is(pushed.reply?.status, 200, pushed.reply?.text)
  const deployment = () => platform.db('deployments').where({ app_id: app.id, release: 2 }).first()

  // Longer than the timeouts of a heartbeat and of a workflow task.
  const freeze = async (seconds: number) => {
    signal('SIGSTOP')
    await comesTrue(() => readRecords(`${folder}/run`).every(isFrozen))
    for (let second = 0; second < seconds; second++) {
      t.is((await platform.page(app.domain)).body, 'the first', 'the version before serves on')
      t.not((await deployment()).state, 'success')
      await sleep(1000)
    }
    signal('SIGCONT')
  }
  const remains = async () => (await platform.remains()).containers
  await platform.until(async () => (await remains()).includes(`berth-${app.id}-2-build`), 60, 'it is being built')
  await freeze(18)
  const ended = async () => !(await remains()).includes(`berth-${app.id}-2-build`)
  await platform.until(ended, 90, 'it was built')
  t.not((await deployment()).state, 'success', 'it has not passed its gate yet')
  await freeze(12)

  const { operation_id: operationId, id } = await deployment()
  t.like(await platform.ended(operationId, 150), { state: 'success', code: null })
  const events = await platform.db('deployment_events').where({ deployment_id: id }).orderBy('id')
  t.deepEqual(
    events.map(({ state }) => state),
    ['pending', 'clone', 'commit', 'restarting', 'success'],
  )
  await platform.serves(app.domain, 'the second')
  await platform.until(async () => (await remains()).join() === `berth-${app.id}-2`, 60, 'the old version is retired')
  t.is((await platform.db('operations').whereIn('state', ['queued', 'running'])).length, 0)
})
