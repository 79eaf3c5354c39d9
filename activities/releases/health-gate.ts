import { request } from 'node:http'
import type { RecordedExit } from '../../db/apps/apps.ts'
import { pause } from '../../lib/async/loop.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { gateProbeMs } from '../../policy/timeouts.ts'
import type { ContainerHost, ContainerState } from '../containers/port.ts'
import type { ContainerExit } from './release.ts'

/** Why a program did not pass, and how its container ended if it did. */
export interface Unhealthy {
  reason: string
  exit: ContainerExit | null
  /** Nothing is known about the program: its container was removed, or ended by an engine that restarted. */
  gone?: true
}

/** Result when the host has entered another boot since the start. */
export const takenDown: Unhealthy = {
  reason: 'The container engine was restarted and ended the program.',
  exit: null,
  gone: true,
}

export interface GateOptions {
  container: string
  /** Published address of a web application; null for a program without a port. */
  target: { address: string; port: number } | null
  timeoutSeconds: number
  /** A probe without a complete answer after this has failed, even if bytes arrived: a server may trickle for ever. Default 2 s. */
  probeMs?: number
  signal: AbortSignal
}

/** Most programs answer within a second of their start, small ones much sooner: they are probed more often then. */
const pollMs = (waitedSeconds: number): number => (waitedSeconds < 0.25 ? 5 : waitedSeconds < 1 ? 10 : 50)
const inspectMs = 500
/** A program that ends immediately is noticed after this; one that answers immediately is not inspected. */
const firstInspectMs = 100
/** A program without a port has to stay up this long. */
const aliveSeconds = 3

/**
 * Waits until a program answers HTTP (any status), or stays alive when it has no port. Null = healthy. Takes at most the
 * timeout of the gate plus one probe; rejects as soon as the signal aborts.
 */
export async function passGate(engine: ContainerHost, gate: GateOptions): Promise<Unhealthy | null> {
  const { probeMs = gateProbeMs } = gate
  const startedAt = performance.now()
  const waitedSeconds = () => (performance.now() - startedAt) / 1000
  let inspectedAt = startedAt - inspectMs + firstInspectMs
  let aliveSince = startedAt
  const alive = () => (performance.now() - aliveSince) / 1000 >= aliveSeconds
  for (;;) {
    gate.signal.throwIfAborted()
    if (gate.target && (await answers(gate.target, deadlineSignal(probeMs, gate.signal)))) return null
    if (performance.now() - inspectedAt >= inspectMs || (!gate.target && alive())) {
      inspectedAt = performance.now()
      const state = await engine.inspect(gate.container)
      if (!state) return { reason: 'The container of the program was removed.', exit: exitOf(null), gone: true }
      if (!state.running) return { reason: endedReason(state), exit: exitOf(state) }
      if (state.status === 'paused') {
        // A paused program cannot answer. It was not paused for a snapshot: none is taken of it yet.
        await engine.unpause(gate.container)
        aliveSince = performance.now()
      }
      if (!gate.target && alive()) return null
    }
    if (gate.target && waitedSeconds() >= gate.timeoutSeconds) {
      const reason = `The program did not answer on port $PORT within ${gate.timeoutSeconds} s. It has to listen on 0.0.0.0.`
      return { reason, exit: null }
    }
    await pause(pollMs(waitedSeconds()), gate.signal)
  }
}

/** How the container ended, as it is recorded. */
export function exitOf(state: ContainerState | null): ContainerExit {
  const at = state?.finishedAt ?? new Date()
  return {
    containerId: state?.id ?? null,
    code: state?.exitCode ?? null,
    oom: state?.oom ?? false,
    at: at.toISOString(),
  }
}

/** As rows have it. */
export const endOf = ({ code, oom, at }: ContainerExit): RecordedExit => ({ code, oom, at: new Date(at) })

function endedReason(state: ContainerState): string {
  if (state.oom) return 'The program was ended because it used more memory than the application has.'
  return `The program ended with exit code ${state.exitCode ?? 'unknown'} right after its start; the logs say why.`
}

/** Whether anything answers HTTP there; false as soon as the signal aborts. */
function answers({ address, port }: { address: string; port: number }, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    const probe = request({
      host: address,
      port,
      path: '/',
      agent: false,
      headers: { 'user-agent': 'berth-health' },
      signal,
    })
    probe.on('response', response => {
      response.destroy()
      resolve(true)
    })
    probe.on('error', () => resolve(false))
    probe.end()
  })
}
