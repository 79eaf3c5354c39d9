import test from 'ava'
import { webhookSurvives } from '../kit/crash/deploy-crash-kit.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const git = await startGitServer()
test.after.always('stop the git server', () => git.stop())
const started = testPlatform({ settings: { GIT_ALLOWED_HOSTS: git.host } })

for (const at of [
  { point: 'pushes.store:before', stored: false },
  { point: 'pushes.store:after', stored: true },
  { point: 'pushes.confirm:after', stored: true },
  { point: 'lanes.wake:before', stored: true },
])
  test.serial(`the API dies of a push at ${at.point}: delivered again, it is one deployment`, async t => {
    t.timeout(120_000)
    await webhookSurvives(t, await started, git, at)
  })
