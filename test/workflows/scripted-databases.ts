import { createHash } from 'node:crypto'
import { cancellationSignal } from '@temporalio/activity'
import type { DatabaseHostActivities, StartedDatabase } from '../../activities/database-host.ts'
import type { DatabaseSnapshotActivities } from '../../activities/database-snapshots.ts'
import { type DatabaseStep, type DatabaseStepInput, guardedDatabaseSteps } from '../../activities/databases/steps.ts'
import { hosted, refusal, withEngineCode } from '../../activities/failures.ts'
import type { SnapshotSlots } from '../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../activities/steps/app-locks.ts'
import type { Db } from '../../db/database.ts'
import { allocateSegment } from '../../db/objects/segments.ts'
import { addToInput } from '../../db/operations/database-inputs.ts'
import { findRestoredSnapshot } from '../../db/snapshots/snapshots.ts'
import type { DatabaseStepName } from '../../policy/databases/database-steps.ts'

function cancelledOnce(): { promise: Promise<never> } {
  const signal = cancellationSignal()
  return {
    promise: new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
  }
}

/** What a scripted host has of one database. */
export interface ScriptedDatabase {
  volume: boolean
  /** Memory in MB that the engine runs with; null = it does not run. */
  runs: number | null
  container: boolean
  /** Generation of the volume that it runs on, and of one that a restore has prepared alongside it. */
  generation: number
  copy: number | null
  /** Generation of the password that works; 0 = none. */
  password: number
  certificates: number
  /** MB that its data take, and that a change of memory has limited them to; null = not limited. */
  data: number
  limit: number | null
  /** Ids of the image that the engine runs with, and of the one that the host has under its name. */
  image: string | null
  tagged: string
  /** Of the restored contents of the next drills. */
  digest: string
}

/** Comes before the effect of a step, or between it and its answer; throws to fail it. */
type Hook = (step: DatabaseStep, name: DatabaseStepName) => Promise<void> | void

export interface DatabaseScript {
  before?: Hook
  after?: Hook
}

const nothing: ScriptedDatabase = {
  ...{ data: 0, limit: null },
  ...{ volume: false, runs: null, container: false, generation: 0, copy: null, password: 0, certificates: 0 },
  ...{ image: null, tagged: 'sha256:1', digest: 'c'.repeat(64) },
}

/** A host of databases in memory, for lanes: the guard of its steps is the real one, as are the slots for its snapshots. */
export function scriptedDatabases(
  { db, hostId, places }: { db: Db; hostId: string; places: SnapshotSlots },
  script: DatabaseScript = {},
) {
  const states = new Map<string, ScriptedDatabase>()
  const calls: { databaseId: string; name: DatabaseStepName }[] = []
  const guard = guardedDatabaseSteps({ db, locks: appLocks(), hostId, sharedUid: null })

  const at = (id: string): ScriptedDatabase => {
    const state = states.get(id) ?? { ...nothing }
    states.set(id, state)
    return state
  }

  function during<T>(
    name: DatabaseStepName,
    input: DatabaseStepInput,
    effect: (state: ScriptedDatabase, step: DatabaseStep) => T | Promise<T>,
    turn: typeof guard.turn = guard.turn,
  ): Promise<T> {
    return turn(name, input, async step => {
      calls.push({ databaseId: step.databaseId, name })
      await script.before?.(step, name)
      const answer = await effect(at(step.databaseId), step)
      await script.after?.(step, name)
      return answer
    })
  }

  const started = (): StartedDatabase => ({
    containerId: 'c'.repeat(64),
    startedAt: new Date().toISOString(),
    bootId: 'boot',
  })
  const exit = () => ({ containerId: 'c'.repeat(64), code: 0, oom: false, at: new Date().toISOString() })

  const activities: DatabaseHostActivities = {
    prepareDatabase: async input => {
      await during('prepareDatabase', input, state => Object.assign(state, { volume: true }))
    },
    startDatabase: (input, { mustStand }) =>
      during('startDatabase', input, (state, step) => {
        if (mustStand && state.runs !== null) throw refusal('CONTAINER_ALREADY_STARTED', 'It runs.')
        state.container = true
        state.runs = step.database().ramMb
        state.generation = step.database().generation
        state.image = step.database().imageId ?? state.tagged
        return { ...started(), imageId: state.image }
      }),
    stopDatabase: (input, { mustRun }) =>
      during('stopDatabase', input, state => {
        if (mustRun && state.runs === null) throw refusal('CONTAINER_ALREADY_STOPPED', 'It does not run.')
        state.runs = null
        return exit()
      }),
    fitDatabaseMemory: async input => {
      await during('fitDatabaseMemory', input, (state, step) => {
        const { ramMb } = step.database()
        state.limit = input.back ? null : ramMb
        if (!input.back && state.data > ramMb) throw refusal('INVALID_MEMORY', 'The data do not fit.')
      })
    },
    setDatabasePassword: (input, before) =>
      during('setDatabasePassword', input, (state, step) => {
        state.password = step.database().passwordGeneration
        if (state.password === before) throw new Error('the earlier password still works')
        return { ...started(), imageId: state.image ?? undefined }
      }),
    chooseImage: input =>
      during('chooseImage', input, async (state, step) => {
        const images = { from: step.database().imageId ?? state.image, to: state.tagged }
        await addToInput(db, step.operationId, { images })
        return images.from !== images.to
      }),
    proveImage: input =>
      during('proveImage', input, state => {
        if (state.runs !== null) throw refusal('ACTION_FAILED', 'It runs.')
      }),
    reissueCertificate: input =>
      during('reissueCertificate', input, state => {
        state.certificates++
        return started()
      }),
    removeDatabaseContainers: input =>
      during(
        'removeDatabaseContainers',
        input,
        state => {
          state.container = false
          state.runs = null
        },
        guard.lateTurn,
      ),
    removeDatabaseVolumes: async input => {
      await during('removeDatabaseVolumes', input, state => Object.assign(state, { volume: false }), guard.lateTurn)
    },
  }
  const copyOf = ({ input }: DatabaseStep) => (input.volumes as { copy: number }).copy
  const direct: typeof guard.turn = async (name, input, work) => work(await guard.begin(name, input))
  const inSlot = <T>({ operationId }: DatabaseStepInput, work: () => Promise<T>): Promise<T> =>
    places.holding({ hostId, operationId }, cancellationSignal(), work)
  const snapshots: DatabaseSnapshotActivities = {
    awaitDatabaseSnapshotPlace: async input => {
      const step = await guard.begin('awaitDatabaseSnapshotPlace', input)
      await script.before?.(step, 'awaitDatabaseSnapshotPlace')
      await places.wait({ hostId, operationId: step.operationId, ownerId: step.ownerId }, cancellationSignal())
    },
    takeDatabaseSnapshot: async input => {
      const { promise: cancelled } = cancelledOnce()
      const taken = async () => {
        await during('takeDatabaseSnapshot', input, () => undefined, direct)
        const segmentId = await allocateSegment(db)
        const sha256 = createHash('sha256').update(segmentId).digest('hex')
        return { segmentId, size: 10, sha256, digest: sha256, contents: 'c'.repeat(64), restoredBytes: 30 }
      }
      const { operationId, ownerId } = input
      if (input.takesFreeSlot) await places.takeFree({ hostId, operationId, ownerId })
      return inSlot(input, () => Promise.race([cancelled, taken()]))
    },
    prepareRestore: async input => {
      const prepare = () =>
        during('prepareRestore', input, (state, step) => Object.assign(state, { copy: copyOf(step) }), direct)
      await (input.inSlot ? inSlot(input, prepare) : prepare())
    },
    drillSnapshot: input => {
      const { promise: cancelled } = cancelledOnce()
      const tried = async () => {
        const digest = await during('drillSnapshot', input, state => state.digest, direct)
        const snapshot = await findRestoredSnapshot(db, input.operationId)
        return { digest, reason: digest === snapshot?.contents ? null : 'It has other contents.' }
      }
      return inSlot(input, () => Promise.race([cancelled, tried()]))
    },
    discardDrill: async input => {
      await during('discardDrill', input, () => undefined, guard.lateTurn)
    },
    discardRestore: async input => {
      await during('discardRestore', input, state => Object.assign(state, { copy: null }), direct)
    },
  }
  return {
    activities: hosted(activities, withEngineCode),
    snapshots: hosted(snapshots),
    at,
    /** The host's steps for one database, in order. */
    steps: (databaseId: string) => calls.filter(call => call.databaseId === databaseId).map(({ name }) => name),
  }
}
