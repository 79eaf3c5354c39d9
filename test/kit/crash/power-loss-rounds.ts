import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { startGitServer } from '../git/git-server.ts'
import { testPowerLoss } from './power-loss.ts'
import { brokenPromises } from './power-loss-check.ts'
import { PowerLossLoad } from './power-loss-load.ts'

/** Call it with `await`, before anything is declared: what a test does in which the power goes so often under load. */
export async function powerLossRounds(): Promise<(t: ExecutionContext, times: number) => Promise<void>> {
  const git = await startGitServer()
  const platform = await testPowerLoss({ GIT_ALLOWED_HOSTS: git.host, DISK_MB_PER_256MB: '64', API_PROCESSES: '1' })
  test.after.always('stop the git server', () => git.stop())
  return async (t, times) => {
    t.timeout((5 + 3 * times) * 60_000)
    const load = new PowerLossLoad(git)
    const up = async () => {
      const started = await platform.run('up', '--detach')
      t.is(started.code, 0, started.stderr)
      await load.at(await platform.info())
    }
    await up()
    await load.prepare()
    for (let cut = 1; cut <= times; cut++) {
      await load.invite(100)
      const end = load.start()
      await load.everyKind()
      await sleep(randomInt(2000))
      await platform.losePower()
      await end()
      await up()
      const answered = Object.entries(load.counts).map(([kind, count]) => `${count} ${kind}`)
      t.log(`cut ${cut}, answered before it: ${answered.join(', ')}`)
      t.deepEqual(await brokenPromises(load, platform.dataDir), [])
    }
  }
}
