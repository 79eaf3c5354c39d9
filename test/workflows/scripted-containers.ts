import { activityInfo } from '@temporalio/activity'
import type { AppHostActivities, Unhealthy } from '../../activities/app-host.ts'
import { refusal, reportToLane } from '../../activities/failures.ts'
import type { Release, StartedContainer, StepOf, StoppedContainer } from '../../activities/releases/release.ts'
import { fenced } from '../../activities/steps/claims.ts'
import { recordServingAgain } from '../../activities/steps/serving.ts'
import { loadApp } from '../../db/apps/apps.ts'
import { appendLog } from '../../db/deploys/deployments.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import type { ScriptedParts } from './scripted-parts.ts'

type Steps = Pick<
  AppHostActivities,
  'startRelease' | 'passHealthGate' | 'startApp' | 'stopApp' | 'removeContainer' | 'removeContainers'
>

/** Starts of containers at a scripted host. */
export function containerStarts({ db, at, meet, reached, answersAtOnce, turn }: ScriptedParts) {
  async function run(name: 'startRelease' | 'startApp', release: Release): Promise<StartedContainer> {
    const variablesVersion = (await loadApp(db, release.appId))?.variables_version ?? 0
    return turn(name, release, async () => {
      const trouble = meet(name, release)
      const started = at(release.appId).start(release)
      if (trouble === 'the program ends') at(release.appId).end(release.number, { code: 137, oom: true })
      return { ...started, bootId: at(release.appId).bootId, variablesVersion }
    })
  }

  async function startBrought(release: Release): Promise<StartedContainer> {
    await reached(release, 'restarting')
    const started = await run('startRelease', release)
    return answersAtOnce(release) ? { ...started, answered: true } : started
  }

  return { run, startBrought }
}

/** The container steps of a scripted host. */
export function containerSteps(parts: ScriptedParts): Steps {
  const { db, at, meet, stopped, begin, turn, lateTurn } = parts
  const { run, startBrought } = containerStarts(parts)

  function look({ appId, number, hostname }: Release, trouble: Trouble | null): Unhealthy | null {
    const app = at(appId)
    if (!app.has(number)) return { reason: 'The container was removed.', exit: app.exitOf(number), gone: true }
    if (!app.runs(number)) return { reason: 'The program ended right after its start.', exit: app.exitOf(number) }
    return hostname && trouble === 'the program is deaf' ? { reason: 'It did not answer.', exit: null } : null
  }

  async function startAgain(input: StepOf): Promise<StoppedContainer> {
    const { operationId, release, exit } = await turn('stopApp', input, async step => {
      const { operationId } = step
      const release = step.serving()
      meet('stopApp', release)
      at(release.appId).end(release.number)
      return { operationId, release, exit: at(release.appId).exitOf(release.number) }
    })
    reportToLane(exit)
    await stopped(release)
    const started = await run('startApp', release)
    const recorded = await recordServingAgain(fenced(db), operationId, release, started)
    return { ...exit, started, ...(recorded && { recorded }) }
  }

  return {
    async startRelease(input) {
      return startBrought((await begin('startRelease', input)).brought())
    },

    async passHealthGate(input, started) {
      const release = (await begin('passHealthGate', input)).brought()
      const trouble = meet('passHealthGate', release)
      if (started.bootId !== at(release.appId).bootId) return { reason: 'Its engine ended it.', exit: null, gone: true }
      const unhealthy = look(release, trouble)
      if (unhealthy && release.deploymentId) await appendLog(db, release.deploymentId, `${unhealthy.reason}\n`)
      return unhealthy
    },

    async startApp(input, { mustStand }) {
      const release = (await begin('startApp', input)).serving()
      meet('startApp', release)
      if (mustStand && at(release.appId).runs(release.number) && firstAttempt())
        throw refusal('CONTAINER_ALREADY_STARTED', 'It runs already.')
      return run('startApp', release)
    },

    async stopApp(input, { mustRun, thenStart }) {
      if (thenStart) return startAgain(input)
      const ran = await lateTurn('stopApp', input, async step => {
        const { appId, number } = step.spent()
        meet('stopApp', input)
        const ran = at(appId).runs(number)
        at(appId).end(number)
        return ran
      })
      if (mustRun && !ran && firstAttempt()) throw refusal('CONTAINER_ALREADY_STOPPED', 'It is stopped already.')
      return at(input.appId).exitOf(input.number)
    },

    async removeContainer(input) {
      await lateTurn('removeContainer', input, async step => {
        const { appId, number } = step.spent()
        meet('removeContainer', input)
        at(appId).removeContainer(number)
      })
    },

    async removeContainers(input) {
      await turn('removeContainers', input, async ({ appId }) => {
        meet('removeContainers', input)
        at(appId).removeContainers()
      })
    },
  }
}

/** False when an earlier attempt may have had its effect. */
const firstAttempt = (): boolean => activityInfo().attempt === 1
