import type { EngineName } from '../../../../policy/databases/engine.ts'
import { around } from '../crash-portions.ts'
import type { Failure } from './forced-failure.ts'
import type { Kind } from './rental.ts'

/**
 * What dies while the host stands still in a step: the host itself; the host, whose name another process then takes, before it wakes; all
 * engines; the worker; Temporal, with or without what it knows; our own Postgres; the power of all hosts.
 */
export type Victim =
  | 'host'
  | 'replaced host'
  | 'engine'
  | 'worker'
  | 'Temporal'
  | 'emptied Temporal'
  | 'Postgres'
  | 'power'

/** In place of a crash point: the operation has ended well, and its caller has just been told. */
export const answered = 'its answer'

/** A step of a kind of operation, at which something dies. */
export interface Case {
  kind: Kind
  /** The name of a crash point, or `answered`. */
  point: string
  victim: Victim
  engine: EngineName
}

/** Effects of a host in each kind, in their order. */
const hostEffects: Record<Kind, readonly string[]> = {
  create: [
    ...['host.prepareDatabase', 'database-volumes.ensure', 'databases.settle', 'database-volumes.flush'],
    ...['host.startDatabase', 'database-engine.ensureNetwork', 'database-engine.create', 'database-engine.start'],
    ...['databases.untilServing', 'host.setDatabasePassword', 'databases.locally', 'databases.proveLogin'],
  ],
  start: ['host.startDatabase', 'databases.settle', 'database-engine.start', 'databases.untilServing'],
  stop: ['host.stopDatabase', 'database-engine.stop'],
  resize: [
    ...[
      'host.stopDatabase',
      'database-engine.stop',
      'host.startDatabase',
      'databases.settle',
      'database-engine.create',
    ],
    ...['database-engine.start', 'databases.untilServing'],
  ],
  rotate: ['host.setDatabasePassword', 'databases.settle', 'databases.locally', 'databases.proveLogin'],
  certify: ['host.reissueCertificate', 'databases.settle', 'databases.locally', 'databases.proveLogin'],
  delete: [
    ...['host.removeDatabaseContainers', 'database-engine.remove', 'host.removeDatabaseVolumes'],
    'database-volumes.remove',
  ],
  snapshot: [
    ...['host.takeDatabaseSnapshot', 'databases.locally', 'store.put', 'store.open', 'snapshots.unpack'],
    ...['database-engine.create', 'databases.untilServing', 'database-engine.remove', 'database-volumes.remove'],
  ],
  restore: [
    ...['host.awaitDatabaseSnapshotPlace', 'host.prepareRestore', 'snapshots.unpack', 'databases.locally'],
    ...[
      'database-volumes.flush',
      'host.stopDatabase',
      'database-engine.stop',
      'host.startDatabase',
      'host.setDatabasePassword',
      'databases.proveLogin',
    ],
  ],
  moment: [
    ...[
      'host.awaitDatabaseSnapshotPlace',
      'host.prepareRestore',
      'store.put',
      'store.get',
      'database-engine.create',
      'databases.locally',
    ],
    ...['database-engine.remove', 'database-volumes.flush', 'host.stopDatabase', 'host.startDatabase'],
  ],
}

/** One point in the middle of each step of each kind. */
const middles: Record<Kind, readonly string[]> = {
  create: ['databases.settle:after', 'database-engine.start:after', 'databases.proveLogin:before'],
  start: ['database-engine.start:after'],
  stop: ['database-engine.stop:before', 'database-engine.stop:after'],
  resize: ['database-engine.stop:after', 'database-engine.start:after'],
  rotate: ['databases.locally:before', 'databases.proveLogin:before'],
  certify: ['databases.settle:after', 'databases.proveLogin:before'],
  delete: ['database-engine.remove:before', 'database-volumes.remove:before'],
  snapshot: ['databases.locally:after', 'databases.untilServing:after'],
  restore: ['databases.locally:after', 'host.stopDatabase:after', 'databases.proveLogin:before'],
  moment: ['store.put:after', 'database-engine.create:after', 'databases.locally:after'],
}

/** Those of every engine. */
type CommonKind = Exclude<Kind, 'moment'>

const kinds = (Object.keys(hostEffects) as Kind[]).filter(kind => kind !== 'moment')

/** Every effect of a host, before and after it: the host dies. */
export const hostCases = (engine: EngineName, only: readonly Kind[] = kinds): Case[] =>
  only.flatMap(kind => around(...hostEffects[kind]).map(point => ({ kind, point, victim: 'host' as const, engine })))

/** One point in each step: something else dies. */
export const stepCases = (victim: Victim, engine: EngineName, only: readonly Kind[] = kinds): Case[] =>
  only.flatMap(kind => middles[kind].map(point => ({ kind, point, victim, engine })))

/** Records of the worker in each kind, in their order. */
export const workerRecords: Record<CommonKind, readonly string[]> = {
  create: ['claimNextOfDatabase', 'recordStep', 'recordDatabaseStatus', 'databaseServes'],
  start: ['claimNextOfDatabase', 'recordDatabaseStatus', 'databaseServes'],
  stop: ['recordDatabaseDesired', 'databaseStopped'],
  resize: ['recordDatabaseStatus', 'databaseResized'],
  rotate: ['recordStep', 'beginRotation', 'databaseServes'],
  certify: ['databaseServes'],
  delete: ['recordDatabaseStatus', 'databaseDeleted'],
  // A slot is free: to stand in line (`keepDatabaseSnapshotPlace`) is a step of restores only.
  snapshot: ['reserveVolumes', 'databaseSnapshotTaken', 'leaveDatabaseSnapshotPlace'],
  restore: [
    ...['reserveVolumes', 'keepDatabaseSnapshotPlace', 'leaveDatabaseSnapshotPlace'],
    ...['beginSwitch', 'switchVolume', 'databaseRestored'],
  ],
}

/** Records of the worker in operations that fail, and in a creation that has to go on otherwise. */
export const workerUndos: readonly { kind: CommonKind; failure: Failure; records: readonly string[] }[] = [
  { kind: 'create', failure: 'cancelled', records: ['creationFailed'] },
  { kind: 'create', failure: 'port taken', records: ['takeAnotherPort'] },
  { kind: 'resize', failure: 'late', records: ['databaseServesAgain'] },
  { kind: 'rotate', failure: 'late', records: ['revertRotation', 'databaseServesAgain'] },
  { kind: 'snapshot', failure: 'cancelled', records: ['databaseSnapshotFailed'] },
  { kind: 'restore', failure: 'port taken', records: ['revertVolume', 'databaseServesAgain'] },
]

/** Transactions of the worker whose COMMIT is cut, by a statement in them. */
export const workerCommits: Record<CommonKind, readonly RegExp[]> = {
  create: [/operations\.claim-next/, /"provisioned_at"/],
  start: [/operations\.claim-next/, /"container_id"/],
  stop: [/"desired_if_kept"/, /"exit_oom"/],
  resize: [/'restarting'|restarting/, /greatest\(d\.ram_mb/],
  rotate: [/"password_generation"/, /"provisioned_at"/],
  certify: [/"provisioned_at"/],
  delete: [/delete from "databases"/],
  snapshot: [/"next_generation"/, /"contents"/],
  restore: [/"next_generation"/, /"retired_generation"/, /"container_id"/],
}
