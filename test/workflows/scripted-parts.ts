import { cancellationSignal } from '@temporalio/activity'
import { HostUnreachable, ImageUnavailable } from '../../activities/containers/port.ts'
import type { DecisionOptions } from '../../activities/releases/decision.ts'
import type { Release } from '../../activities/releases/release.ts'
import { SnapshotRefused } from '../../activities/snapshots/port.ts'
import type { SnapshotSlots } from '../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../activities/steps/app-locks.ts'
import { guardedSteps } from '../../activities/steps/guarded-steps.ts'
import type { Db } from '../../db/database.ts'
import { recordDeploymentStep } from '../../db/deploys/deployments.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import type { StepName } from '../../policy/apps/step-kinds.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import { ScriptedApp } from './scripted-app.ts'

/** Waits, or records something. It receives everything that the lane has sent, of which hosts trust only ids. */
type Hook = (release: Release, signal: AbortSignal) => Promise<void>
type ReleaseName = Pick<Release, 'appId' | 'number'>

/** Script of a test for its host; by default everything succeeds. */
export interface HostScript {
  /** Called before the effect of a step. */
  before?: Partial<Record<StepName, Hook>>
  /** Called between the effect of a step and its answer. */
  after?: Partial<Record<StepName, Hook>>
  /** Called by a restart between its stop and its start. */
  stopped?: Hook
  /** What goes wrong; called by each step. */
  trouble?(release: ReleaseName, step: StepName): Trouble | null | undefined
  /** Whether a release has dependencies to install. */
  installs?(release: Release): boolean
  /** Whether the application's host is of a version that only stops what it is to restart. */
  onlyStops?(release: Release): boolean
  /** Whether the application's host is of a version that only places what it prepares. */
  onlyPlaces?(release: Release): boolean
  /** Whether the program of a release answers as soon as it is started, so that it passes no gate. */
  answersAtOnce?(release: Release): boolean
}

export interface ScriptedHostOptions extends DecisionOptions {
  db: Db
  hostId: string
  places: SnapshotSlots
}

/** Steps that call the engine. */
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

/** Parts of a scripted host. The part of real hosts decides whether a step may run. */
export function scriptedParts(options: ScriptedHostOptions, script: HostScript) {
  const apps = new Map<string, ScriptedApp>()
  return {
    ...options,
    ...guardedSteps({ ...options, locks: appLocks(), traits: { id: options.hostId } }),
    installs: (release: Release): boolean => script.installs?.(release) ?? false,
    onlyPlaces: (release: Release): boolean => script.onlyPlaces?.(release) ?? false,
    answersAtOnce: (release: Release): boolean => script.answersAtOnce?.(release) ?? false,

    stopped: async (release: Release): Promise<void> => script.stopped?.(release, cancellationSignal()),

    /** State of an application at the host. */
    at(appId: string): ScriptedApp {
      const app = apps.get(appId) ?? new ScriptedApp()
      apps.set(appId, app)
      return app
    },

    /** Throws the trouble of this step, or returns it. */
    meet(step: StepName, { appId, number }: ReleaseName): Trouble | null {
      const trouble = script.trouble?.({ appId, number }, step) ?? null
      const failure = trouble && failures[trouble]
      if (failure?.at.includes(step)) throw failure.error()
      return trouble
    },

    /** Records the progress of a release's deployment. */
    async reached({ deploymentId }: Release, state: 'clone' | 'commit' | 'restarting'): Promise<void> {
      if (deploymentId) await recordDeploymentStep(options.db, deploymentId, { state })
    },
  }
}
