import { constants } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { expireDays } from '../activities/analytics/expired-days.ts'
import { refusePlainHttp } from '../policy/installation/plain-http.ts'
import { plansOf } from '../workers/adapters/plans.ts'
import { endLeftovers, Supervisor } from '../workers/supervisor/supervisor.ts'
import { AlreadyRunning, lockSupervisor } from '../workers/supervisor/supervisor-lock.ts'
import { withInstallation } from './installation/database.ts'
import { type UpFlags, upDetached } from './installation/detached.ts'
import { deployExample } from './installation/example.ts'
import {
  type DataPlace,
  type Installation,
  loadInstallation,
  openDataPlace,
  openInstallation,
  otherModel,
} from './installation/installation.ts'
import { dockerOptions, startPlatform } from './installation/platform.ts'
import { phaseOf, startPhase } from './installation/start-phase.ts'
import { startReport } from './installation/start-report.ts'
import { summary } from './installation/summary.ts'
import { keepDocker } from './services/engine/docker.ts'
import { ensureImages, firstImages, prepareStandIn } from './services/images.ts'
import { outliveOutput, type Say } from './terminal/terminal.ts'

export function upCommand(program: Command): void {
  program
    .command('up')
    .option('-d, --detach', 'run in the background')
    .option('--adopt', 'make the data folder and object store belong to the database, after moving them on purpose')
    .option('--ai', 'also run a toy language model, for trying out the AI gateway; installs 180 MB into a cache once')
    .action(async ({ detach, ...flags }: UpFlags & { detach?: boolean }) => {
      const place = openDataPlace(process.env)
      await (detach ? upDetached(place, flags) : upInForeground(place, flags)).catch(async error => {
        if (!(error instanceof AlreadyRunning)) throw error
        const phase = phaseOf(place.runFolder)
        if (phase !== null) throw new Error(alreadyStarting(error.record.pid, phase))
        console.error(error.message)
        if (flags.ai) noteToyModel(loadInstallation(process.env))
        console.log(await withInstallation((installation, db) => summary(installation, db, null)))
      })
    })
}

function noteToyModel({ runsToyModel, settings }: Installation): void {
  if (runsToyModel) return
  const words = 'It runs without the toy model. To start it too: berth down, then berth up --ai'
  console.error(settings.AI_UPSTREAM_URL ? otherModel : words)
}

const alreadyStarting = (pid: number, phase: string): string =>
  `Process ${pid} is already starting Berth: ${phase}\nWait until it is up, then see: berth info`

/**
 * Runs the platform until a signal. Progress goes to stderr, and to the command that started it in the background. A signal before
 * everything is up ends the start, with the exit code that shells use for it.
 */
async function upInForeground(place: DataPlace, flags: UpFlags): Promise<void> {
  outliveOutput(process)
  const release = await lockSupervisor(place.runFolder)
  const phase = startPhase(place.runFolder)
  phase.is('Starting')
  const { say, done } = startReport(process, phase)
  const supervisor = new Supervisor({ ...place, say })
  const signal = stopOnSignal(supervisor, say)
  const over = new AbortController()
  try {
    // After a signal, errors of the start are consequences of it.
    const started = start(place, flags, { supervisor, say, over: over.signal }).catch(async error => {
      if (signal.code() === null) throw error
      await signal.ended
      return null
    })
    const text = await Promise.race([started, signal.ended.then(() => null)])
    if (text === null) {
      process.exitCode = signal.code() ?? 1
      return
    }
    done(text)
    await signal.ended
    say('Stopped. Applications and databases keep running; to stop them too: berth down --apps')
  } finally {
    over.abort()
    await supervisor.stop()
    phase.over()
    release()
  }
}

interface Run {
  supervisor: Supervisor
  say: Say
  /** Aborts when the platform is to end. */
  over: AbortSignal
}

async function start(
  place: DataPlace,
  { adopt: adopts, ai }: UpFlags,
  { supervisor, say, over }: Run,
): Promise<string> {
  const leftovers = await endLeftovers(place.runFolder)
  if (leftovers.length) say(`Ended processes of an earlier start: ${leftovers.join(', ')}`)
  const installation = { ...(await openInstallation(process.env, place, { ai })), adopts }
  // Settings that the processes would refuse are reported before anything starts.
  plansOf(installation.config)
  refusePlainHttp(installation.config)
  say(`Starting Berth with its data in ${installation.dataDir}`)
  await prepareStandIn(installation.config.databases, say).catch(error => say(error.message))
  await startPlatform(installation, supervisor, say)
  void keepDocker(dockerOptions(installation), say, { over })
  if (!installation.config.analytics.isOn)
    void expireDays(join(installation.dataDir, 'analytics'), {
      over,
      onError: error => say(`Expired analytics cannot be removed: ${(error as Error).message}`),
    })
  const exampleUrl = await firstApplication(installation, say)
  return withInstallation((running, db) => summary({ ...running, notes: installation.notes }, db, exampleUrl))
}

/** The example is optional: if it fails, the platform stays up and reports why. */
async function firstApplication(installation: Installation, say: Say): Promise<string | null> {
  try {
    await ensureImages(firstImages(), installation.config.host.dockerHost, say)
    return await deployExample(installation, say)
  } catch (error) {
    say(`The example did not start: ${(error as Error).message}`)
    return null
  }
}

interface Stop {
  /** Resolves when everything has stopped. */
  ended: Promise<void>
  /** The exit code for the received signal; null before one. */
  code(): number | null
}

/** The first signal stops everything in order, the second kills. */
function stopOnSignal(supervisor: Supervisor, say: Say): Stop {
  let code: number | null = null
  const ended = new Promise<void>((resolve, reject) => {
    const onSignal = (name: NodeJS.Signals) => {
      if (code !== null) {
        supervisor.kill()
        process.exit(code)
      }
      code = 128 + constants.signals[name]
      say('Stopping ...')
      supervisor.stop().then(resolve, reject)
    }
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal)
  })
  return { ended, code: () => code }
}
