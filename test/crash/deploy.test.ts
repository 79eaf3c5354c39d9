import test from 'ava'
import { deploysSurvive, goesBack } from '../kit/crash/deploy-crash-kit.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const git = await startGitServer()
test.after.always('stop the git server', () => git.stop())
const started = testPlatform({ hosts: {}, settings: { GIT_ALLOWED_HOSTS: git.host } })

test.serial('a host that dies in the middle of a deploy: every 200 is one deployment that succeeded', async t => {
  t.timeout(170_000)
  await deploysSurvive(t, await started, git, [
    'git.fetch:after',
    'placement.place:after',
    'engine.start:after',
    'host.passHealthGate:after',
  ])
})

test.serial('a host that dies during a rollback: the previous version has its files, and runs', async t => {
  t.timeout(400_000)
  await deploysSurvive(t, await started, git, ['placement.restore:after', 'host.startApp:after'], goesBack)
})
