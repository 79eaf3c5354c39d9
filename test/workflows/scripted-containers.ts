import { activityInfo } from '@temporalio/activity'
import type { AppHostActivities, Unhealthy } from '../../activities/app-host.ts'
import { refusal } from '../../activities/failures.ts'
import type { Release, StartedContainer } from '../../activities/releases/release.ts'
import { loadApp } from '../../db/apps/apps.ts'
import { appendLog } from '../../db/deploys/deployments.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import type { ScriptedParts } from './scripted-parts.ts'

type Steps = Pick<
  AppHostActivities,
  'startRelease' | 'passHealthGate' | 'startApp' | 'stopApp' | 'removeContainer' | 'removeContainers'
>

/** The container steps of a scripted host. */
export function containerSteps(parts: ScriptedParts): Steps {
  const { db, at, meet, reached, begin, turn, lateTurn } = parts

  async function run(name: 'startRelease' | 'startApp', release: Release): Promise<StartedContainer> {
    const variablesVersion = (await loadApp(db, release.appId))?.variables_version ?? 0
    return turn(name, release, async () => {
      const trouble = meet(name, release)
      const started = at(release.appId).start(release)
      if (trouble === 'the program ends') at(release.appId).end(release.number, { code: 137, oom: true })
      return { ...started, bootId: at(release.appId).bootId, variablesVersion }
    })
  }

  function look({ appId, number, hostname }: Release, trouble: Trouble | null): Unhealthy | null {
    const app = at(appId)
    if (!app.has(number)) return { reason: 'The container was removed.', exit: app.exitOf(number), gone: true }
    if (!app.runs(number)) return { reason: 'The program ended right after its start.', exit: app.exitOf(number) }
    return hostname && trouble === 'the program is deaf' ? { reason: 'It did not answer.', exit: null } : null
  }

  return {
    async startRelease(asked) {
      const release = (await begin('startRelease', asked)).brought()
      await reached(release, 'restarting')
      return run('startRelease', release)
    },

    async passHealthGate(asked, started) {
      const release = (await begin('passHealthGate', asked)).brought()
      const trouble = meet('passHealthGate', release)
      if (started.bootId !== at(release.appId).bootId) return { reason: 'Its engine ended it.', exit: null, gone: true }
      const unhealthy = look(release, trouble)
      if (unhealthy && release.deploymentId) await appendLog(db, release.deploymentId, `${unhealthy.reason}\n`)
      return unhealthy
    },

    async startApp(asked, { mustStand }) {
      const release = (await begin('startApp', asked)).serving()
      meet('startApp', release)
      if (mustStand && at(release.appId).runs(release.number) && firstAttempt())
        throw refusal('CONTAINER_ALREADY_STARTED', 'It runs already.')
      return run('startApp', release)
    },

    async stopApp(asked, { mustRun }) {
      const ran = await lateTurn('stopApp', asked, async step => {
        const { appId, number } = step.spent()
        meet('stopApp', asked)
        const ran = at(appId).runs(number)
        at(appId).end(number)
        return ran
      })
      if (mustRun && !ran && firstAttempt()) throw refusal('CONTAINER_ALREADY_STOPPED', 'It is stopped already.')
      return at(asked.appId).exitOf(asked.number)
    },

    async removeContainer(asked) {
      await lateTurn('removeContainer', asked, async step => {
        const { appId, number } = step.spent()
        meet('removeContainer', asked)
        at(appId).removeContainer(number)
      })
    },

    async removeContainers(asked) {
      await turn('removeContainers', asked, async ({ appId }) => {
        meet('removeContainers', asked)
        at(appId).removeContainers()
      })
    },
  }
}

/** False when an earlier attempt may have had its effect. */
const firstAttempt = (): boolean => activityInfo().attempt === 1
