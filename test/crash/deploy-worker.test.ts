import test from 'ava'
import { goesBack, workerDeploySurvives } from '../kit/crash/deploy-crash-kit.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'

const git = await startGitServer()
test.after.always('stop the git server', () => git.stop())
const started = testPlatform({ worker: false, settings: { GIT_ALLOWED_HOSTS: git.host } })

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
})

for (const point of ['records.beginChange:after', 'records.releaseServes:before'])
  test.serial(`a worker that dies at ${point}: the deploy ends as one version that serves`, async t => {
    t.timeout(150_000)
    await workerDeploySurvives(t, await started, git, point)
  })

test.serial('a worker that dies during a rollback: the previous version has its configuration, and runs', async t => {
  t.timeout(170_000)
  await workerDeploySurvives(t, await started, git, 'records.revertConfig:before', goesBack)
})
