import { HostUnreachable, ImageUnavailable } from '../../activities/containers/port.ts'
import type { DecisionOptions } from '../../activities/releases/decision.ts'
import type { Release } from '../../activities/releases/release.ts'
import { SnapshotRefused } from '../../activities/snapshots/port.ts'
import type { SnapshotSlots } from '../../activities/snapshots/snapshot-slots.ts'
import { appTurns } from '../../activities/steps/app-turns.ts'
import { stepTurns } from '../../activities/steps/step-turns.ts'
import type { Db } from '../../db/database.ts'
import { recordDeploymentStep } from '../../db/deploys/deployments.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import type { StepName } from '../../policy/apps/step-kinds.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import { ScriptedApp } from './scripted-app.ts'

/** Waits, or notes something. It is told all that the lane has sent: hosts believe only ids of it. */
type Hook = (release: Release, signal: AbortSignal) => Promise<void>
type ReleaseName = Pick<Release, 'appId' | 'number'>

/** What a test makes of its host. Without a line of it all goes well. */
export interface HostScript {
  /** Comes before the effect of a step. */
  before?: Partial<Record<StepName, Hook>>
  /** Comes between the effect of a step and its answer. */
  after?: Partial<Record<StepName, Hook>>
  /** What goes wrong; asked by each step. */
  trouble?(release: ReleaseName, step: StepName): Trouble | null | undefined
  /** Whether a release has something to install. */
  installs?(release: Release): boolean
}

export interface ScriptedHostOptions extends DecisionOptions {
  db: Db
  hostId: string
  places: SnapshotSlots
}

/** Steps that ask the engine for something. */
const engineSteps = [
  ...(['prepareRelease', 'installDependencies', 'startRelease', 'passHealthGate', 'startApp', 'stopApp'] as const),
  ...(['removeContainer', 'removeContainers', 'discardRelease'] as const),
]
const placing = ['placeFiles', 'restoreFiles'] as const

/** What fails a step, at which steps, and with which error of the host's parts. Other troubles show in what a step answers. */
const failures: Partial<Record<Trouble, { at: readonly StepName[]; error: () => Error }>> = {
  'no image': { at: ['startRelease', 'startApp'], error: () => new ImageUnavailable('The image cannot be had.') },
  'the engine is away': { at: engineSteps, error: () => new HostUnreachable('The engine does not answer.') },
  'the disk is full': { at: placing, error: () => new NoSpaceLeft('The disk of the application is full.') },
  'it is cut off': { at: placing, error: () => new Error('Placing the files was cut off.') },
  'no archive holds the files': { at: ['takeSnapshot'], error: () => new SnapshotRefused('A name is too long.') },
}

export type ScriptedParts = ReturnType<typeof scriptedParts>

/** What the steps of a scripted host work with. For whom a step is done is decided by the part that real hosts have for it. */
export function scriptedParts(options: ScriptedHostOptions, script: HostScript) {
  const apps = new Map<string, ScriptedApp>()
  return {
    ...options,
    ...stepTurns({ ...options, turns: appTurns(), traits: { id: options.hostId } }),
    installs: (release: Release): boolean => script.installs?.(release) ?? false,

    /** What the host has of an application. */
    at(appId: string): ScriptedApp {
      const app = apps.get(appId) ?? new ScriptedApp()
      apps.set(appId, app)
      return app
    },

    /** Throws what goes wrong in this step, or tells of it. */
    meet(step: StepName, { appId, number }: ReleaseName): Trouble | null {
      const trouble = script.trouble?.({ appId, number }, step) ?? null
      const failure = trouble && failures[trouble]
      if (failure?.at.includes(step)) throw failure.error()
      return trouble
    },

    /** Tells how far the deployment of a release is. */
    async reached({ deploymentId }: Release, state: 'clone' | 'commit' | 'restarting'): Promise<void> {
      if (deploymentId) await recordDeploymentStep(options.db, deploymentId, { state })
    },
  }
}
