import { Worker } from '@temporalio/worker'
import test from 'ava'
import { upkeepKinds } from '../../policy/blob-upkeep.ts'
import { workflowCode } from '../../workers/temporal-worker.ts'
import { readHistories } from '../kit/histories.ts'

/** Every way that a workflow can go; each has its recorded run of each generation (CONTRIBUTING.md says how they are made). */
const paths = [
  'blob-cancelled',
  ...upkeepKinds.map(kind => `blob-${kind}`),
  'create',
  'create-cancelled',
  'create-failed',
  'create-stopped',
  'commands',
  'command-host-lost',
  'deploy-beside-commands',
  'deploy-cancelled',
  'deploy-configured',
  'deploy-deleted',
  'deploy-failed-gate',
  'deploy-failed-gate-program',
  'deploy-failed-install',
  'deploy-host-lost',
  'deploy-host-lost-going-back',
  'deploy-program',
  'deploy-superseded',
  'deploy-web',
  'deploy-without-restart',
  'downgrade',
  'downgrade-expired',
  'restore',
  'restore-before-push',
  'restore-cancelled',
  'restore-failed',
  'restore-stopped',
  'snapshot',
  'snapshot-beside-deploy',
  'snapshot-cancelled',
  'snapshot-deleted',
  'snapshot-failed',
]

/** Versions of the workflows whose runs may still be under way; the first stands without a number. */
const generations = ['', '.2']

async function replay(histories: { workflowId: string; history: unknown }[]): Promise<Record<string, string>> {
  const wrong: Record<string, string> = {}
  for await (const { workflowId, error } of Worker.runReplayHistories(workflowCode(), histories as never))
    if (error) wrong[workflowId] = error.message
  return wrong
}

test('runs that were recorded are understood by the code of today', async t => {
  t.timeout(120_000)
  t.deepEqual([paths.length, generations.length], [39, 2])
  const histories = await readHistories()
  t.deepEqual(
    histories.map(history => history.workflowId).sort(),
    generations.flatMap(generation => paths.map(path => path + generation)).sort(),
  )
  t.deepEqual(await replay(histories), {})
})

test('a change that old runs do not fit is seen', async t => {
  t.timeout(120_000)
  const first = (await readHistories()).find(({ workflowId }) => workflowId === 'create')
  const changed = JSON.parse(
    JSON.stringify(first).replaceAll('"placeFiles"', '"placeOtherFiles"').replaceAll('"removeFiles"', '"x"'),
  )
  t.deepEqual(Object.keys(await replay([changed])), [first!.workflowId])
})
