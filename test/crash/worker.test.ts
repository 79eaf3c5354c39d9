import test from 'ava'
import { testPlatform } from '../kit/platform.ts'
import { workflowBundle } from '../kit/workflow-bundle.ts'
import { workerCreationSurvives } from './crash-kit.ts'

const started = testPlatform({ worker: false })

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
})

for (const point of ['records.claimNext:after', 'records.releaseServes:after'])
  test.serial(`a worker that dies at ${point}: the creation ends as one running application`, async t => {
    t.timeout(120_000)
    await workerCreationSurvives(t, await started, point)
  })
