import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loop } from '../../../lib/async/loop.ts'
import { logEnd } from '../../../workers/supervisor/log-end.ts'
import {
  endRecorded,
  type ProcessRecord,
  readRecord,
  removeRecord,
  signal,
} from '../../../workers/supervisor/process-record.ts'
import { type Say, step } from '../../terminal/terminal.ts'
import { findProgram, installPackages, isRoot, MissingPart } from '../system-packages.ts'
import { answers, answersAboutNetworks } from './answers.ts'
import { defaultDockerHost, type EngineOptions, ownEngine, recordedEngine, startEngine } from './own-engine.ts'

export interface DockerOptions extends EngineOptions {
  /** Undefined = the local socket; we start an engine if none answers there. */
  dockerHost: string | undefined
}

/** Resolves once a container engine answers. An engine that we start outlives us: applications are not our children. */
export async function ensureDocker(options: DockerOptions, say: Say): Promise<void> {
  const address = options.dockerHost ?? defaultDockerHost
  if (await answers(address)) return
  if (options.dockerHost)
    throw new MissingPart(`The container engine at DOCKER_HOST=${options.dockerHost} does not answer.`)
  if (!findProgram('dockerd', process.env.PATH)) {
    await installPackages({ what: 'The Docker engine', packages: ['docker.io', 'iptables', 'iproute2'] }, say)
    if (await answersWithin(address, 5)) return // the distribution started it
  }
  if (!isRoot())
    throw new MissingPart(
      'The Docker engine does not answer on /var/run/docker.sock. Start it with:  sudo systemctl start docker  - and give this user access with:  sudo usermod -aG docker $USER  (then log in again)',
    )
  say('Starting the Docker engine')
  startEngine(options, say)
  const up = await step(say, 'waiting for the Docker engine', () =>
    answersWithin(address, 60, () => recordedEngine(options) !== null),
  )
  if (up) return
  const end = recordedEngine(options) ? 'does not answer' : 'has exited'
  throw new MissingPart(`The Docker engine was started but ${end}. ${logEnd(join(options.logFolder, 'dockerd.log'))}`)
}

async function answersWithin(address: string, seconds: number, mayAnswer = () => true): Promise<boolean> {
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline && mayAnswer(); await sleep(100)) {
    if (await answers(address)) return true
  }
  return answers(address)
}

const lookEveryMs = 2000
const silentMs = 60_000

interface Watch {
  over: AbortSignal
  /** Time since its last answer after which an engine is ended, in milliseconds. */
  longestSilenceMs?: number
}

/**
 * Starts our engine again when it has ended, and ends it when it no longer answers: those before 20.10.27 deadlock when one
 * container joins a network while another leaves it (moby 46661), and then start nothing. An engine that we have not started is left
 * alone. Resolves after `over`.
 */
export async function keepDocker(options: DockerOptions, say: Say, { over, longestSilenceMs = silentMs }: Watch) {
  const { runFolder, engine = ownEngine } = options
  if (options.dockerHost) return
  let answeredAt: number | null = null // an engine that is starting does not answer yet
  let starts = 0
  const look = async () => {
    if (!readRecord(runFolder, 'dockerd')) return
    const running = recordedEngine(options)
    if (!running) {
      if (await answers(engine.socket)) return removeRecord(runFolder, 'dockerd') // the system has started one
      say('The Docker engine has exited; starting it again')
      answeredAt = null
      starts++
      return startEngine(options, say)
    }
    const now = performance.now()
    if (await answersAboutNetworks(engine.socket)) {
      answeredAt = now
      starts = 0
    } else if (answeredAt === null) {
      if (await answers(engine.socket)) answeredAt = now
    } else if (now - answeredAt >= longestSilenceMs) {
      answeredAt = null
      say(`The Docker engine no longer answers; ending it. Its stacks are in ${await stacksOf(running, engine)}`)
      await endRecorded({ ...running, graceSeconds: 0 })
    }
  }
  await loop(look, {
    signal: over,
    everyMs: () => lookEveryMs * 2 ** Math.min(starts, 5),
    onError: error => say(`The Docker engine cannot be kept running: ${(error as Error).message}`),
  })
}

/** Lets the engine write where its goroutines stand, for those who ask why. Returns the files. */
async function stacksOf({ pid }: ProcessRecord, { execRoot }: typeof ownEngine): Promise<string> {
  signal(pid, 'SIGUSR1')
  await sleep(1000)
  return join(execRoot, 'goroutine-stacks-*.log')
}
