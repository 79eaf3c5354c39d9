import { MiB } from '../../lib/bytes.ts'
import { dayMs } from '../../lib/time.ts'
import { awaitsStart, isOfThisEnd } from '../../policy/databases/database-problems.ts'
import { diskWarnings } from '../../policy/databases/disk-levels.ts'
import { recentCrash, restartRules, returnDelay } from '../../policy/databases/restarts.ts'
import { automaticSnapshotRules } from '../../policy/rounds.ts'
import { age, since } from '../ops/ops-words.ts'
import { endWords, exitWords, stateOf } from './database-state.ts'
import type { DatabaseStory } from './database-story.ts'

/** Something that is wrong with a database, and what an operator does about it. */
export interface DatabaseProblem {
  problem: string
  remedy: string
}

/** Days before its end from which a certificate is reported. */
const certificateNoticeDays = 30
/** Share of memory or disk from which it is reported. */
const nearlyFull = 0.9
/** An operation that takes longer than this is reported. */
const slowSeconds = 120

/** What is wrong with a database, the most urgent first; empty when nothing is. */
export function problemsOf(story: DatabaseStory, now: Date): DatabaseProblem[] {
  return [
    lost(story) ?? hostProblem(story, now),
    slowOperation(story, now),
    imageProblem(story),
    engineProblem(story, now),
    suspension(story),
    memoryProblem(story),
    readOnlyProblem(story, now) ?? diskProblem(story),
    renewalProblem(story, now),
    certificateProblem(story, now),
    snapshotProblem(story),
    drillProblem(story, now),
  ].filter(found => found !== null)
}

type Found = DatabaseProblem | null

function lost({ database: { id, lost_with: hostId } }: DatabaseStory): Found {
  return hostId === null
    ? null
    : {
        problem: `Its data was lost with host ${hostId}.`,
        remedy: `Berth has no copy except its snapshots: its owner must delete it (DELETE /v2/databases/${id}), create another, and restore a snapshot there`,
      }
}

function hostProblem({ host, database }: DatabaseStory, now: Date): Found {
  if (host?.reachable) return null
  const seen = !host || host.last_seen_at.getTime() === 0 ? 'it has left' : `last seen ${since(host.last_seen_at, now)}`
  return {
    problem: `Host ${database.host_id} is silent, ${seen}: operations wait for it. The database itself may still work.`,
    remedy: `on that machine start Berth, or see: berth logs host. If the host is lost for good: berth hosts forget ${database.host_id}`,
  }
}

function slowOperation({ database: { pending }, holds }: DatabaseStory, now: Date): Found {
  if (!pending || now.getTime() - pending.since.getTime() < slowSeconds * 1000) return null
  const id = pending.id.slice(0, 8)
  return {
    problem: `Its operation ${id} (${pending.kind}) has taken ${age(pending.since, now)}: ${holds.join(' ')}`,
    remedy: `berth ops explain ${id}, berth logs worker`,
  }
}

/** One that runs needs its image at the next start only. */
function imageProblem({ image, host, database }: DatabaseStory): Found {
  if (image === 'ready' || !host?.reachable || database.lost_with) return null
  const when = database.status === 'running' ? 'It runs, but cannot be restarted' : 'It cannot be started'
  if (image === null)
    return {
      problem: `${when}: host ${host.id} is still preparing the image ${database.image}.`,
      remedy: 'wait a few minutes; if this does not change: berth logs host',
    }
  const [why = '', ...rest] = image.split('\n')
  return {
    problem: `${when}: the image ${database.image} is not on host ${host.id}. ${why}`,
    remedy: rest.join(' ') || 'offer its engine again on that host, or load the image there',
  }
}

function engineProblem({ database, host, figures, operations }: DatabaseStory, now: Date): Found {
  const { state } = stateOf(database, host ?? undefined, now)
  if (state === 'running' && figures && !figures.state?.running)
    return {
      problem: 'It is recorded as running, but its container is not running.',
      remedy: 'its host corrects that within a minute; if it does not: berth logs host',
    }
  const crash = recentCrash(database, now)
  if (state === 'running' && crash)
    return {
      problem: `Its engine ${endWords(crash.end, now)}, and was started again. Crashes within a day: ${crash.times}.`,
      remedy: causeOf(database, crash.end),
    }
  if (state === 'restarting')
    return {
      problem: `Its engine ${exitWords(database, now)}, and is being restarted.`,
      remedy: `wait; after ${restartRules.delaysSeconds.length} restarts in a row it is not restarted again. ${causeOf(database, endOf(database))}`,
    }
  if (state !== 'down' && !(state === 'exited' && database.exit_at)) return null
  const [last] = operations
  const failed = last?.kind === 'start' && last.state === 'error' ? last : null
  if (failed && awaitsStart(database) && isOfThisEnd({ exitAt: database.exit_at, failedAt: failed.finished_at }))
    return {
      problem: 'Its engine is not running, because its host could not start it.',
      remedy: `berth ops explain ${failed.id.slice(0, 8)} shows why: remove the cause. Its host tries again at least every ${returnDelay.maxSeconds / 60} minutes`,
    }
  const anew =
    state === 'down'
      ? `start it: berth databases start ${database.id}`
      : `its owner must start it: POST /v2/databases/${database.id}/start`
  const again = failed ? `start it: berth ops retry ${failed.id.slice(0, 8)}` : anew
  return {
    problem: `Its engine ${exitWords(database, now)}${state === 'down' ? `, crashed ${database.restarts} times in a row, and stays down` : ''}.`,
    remedy: `${causeOf(database, endOf(database))} Then ${again}`,
  }
}

/** Exit code of a program that was killed. */
const killed = 137

interface End {
  code: number | null
  oom: boolean | null
}

const endOf = ({ exit_code: code, exit_oom: oom }: DatabaseStory['database']): End => ({ code, oom })

function causeOf({ id, host_id: hostId, ram_mb: ramMb }: DatabaseStory['database'], { code, oom }: End): string {
  if (oom)
    return `It needs more than its ${ramMb} MB: its owner can give it more memory (PATCH /v2/databases/${id}, {"ram": ...}).`
  return code === killed
    ? `It was killed from outside, not because it ran out of memory: see dmesg and the container engine's log on host ${hostId}.`
    : 'The end of its log shows why: remove the cause first.'
}

function suspension({ database: { owner_email: owner }, suspended, blocked }: DatabaseStory): Found {
  if (blocked)
    return {
      problem: `The account of its owner, ${owner}, is blocked and cannot make requests.`,
      remedy: `berth users unblock ${owner}`,
    }
  return suspended
    ? {
        problem: `The plan of its owner, ${owner}, has ended, so it was stopped and cannot be started.`,
        remedy: `berth users set-plan ${owner} --plan <plan>; then its owner must start it; nothing starts automatically`,
      }
    : null
}

function memoryProblem({ figures, database }: DatabaseStory): Found {
  if (!figures?.stats) return null
  const { memoryBytes, memoryLimitBytes } = figures.stats
  if (!memoryLimitBytes || memoryBytes < memoryLimitBytes * nearlyFull) return null
  return {
    problem: `It uses ${megabytes(memoryBytes)} of its ${megabytes(memoryLimitBytes)} of memory, including its caches.`,
    remedy: `if it runs out of memory, its owner can give it more: PATCH /v2/databases/${database.id}, {"ram": ...}`,
  }
}

function diskProblem({ figures, diskMb, database }: DatabaseStory): Found {
  if (!figures || figures.storageBytes < diskMb * MiB * nearlyFull) return null
  return {
    problem: `Its data uses ${megabytes(figures.storageBytes)} of its ${diskMb} MB of disk.`,
    remedy: `its owner can delete data, or give it more memory, which includes more disk: PATCH /v2/databases/${database.id}, {"ram": ...}`,
  }
}

/** Writes have ended; what gives it room differs between engines. */
function readOnlyProblem({ figures, diskMb, database }: DatabaseStory, now: Date): Found {
  const { id, engine, ram_mb: ramMb, read_only_since: readOnlySince } = database
  if (!readOnlySince) return null
  const share = figures
    ? `disk ${Math.round((figures.storageBytes / (diskMb * MiB)) * 100)} % full`
    : 'its disk is full'
  const more = `add at least ${Math.ceil(diskMb / 10)} MB of disk, which comes with memory: PATCH /v2/databases/${id}, {"ram": ...} above ${ramMb}`
  return {
    problem: `It has been read-only for ${age(readOnlySince, now)}: ${share}.`,
    remedy: `its owner can ${waysToReduce[engine]}${more}. It becomes writable again below ${diskWarnings.writableAgain * 100} %`,
  }
}

/** How an owner makes room in a database that refuses what adds data. */
const waysToReduce: Readonly<Record<DatabaseStory['database']['engine'], string>> = {
  postgres: 'drop or truncate tables after SET default_transaction_read_only = off; or ',
  redis: 'delete keys; or ',
  mongo: 'drop collections; or ',
  mysql: 'only ',
}

function renewalProblem({ database }: DatabaseStory, now: Date): Found {
  const { renewal_failures: failures, certificate_renew_at: next, pending } = database
  if (failures === 0 || pending?.kind === 'certify') return null
  const when = next && next > now ? `in ${age(now, next)}` : 'when the database runs'
  return {
    problem: `Its certificate is due for renewal, and ${failures === 1 ? 'the first attempt has failed' : `${failures} attempts in a row have failed`}; the next attempt is ${when}.`,
    remedy: `the last operation "certify" below shows why: berth ops explain <its id>`,
  }
}

function certificateProblem({ database }: DatabaseStory, now: Date): Found {
  const { id, certificate_ends_at: endsAt, lost_with: lostWith } = database
  if (!endsAt || lostWith || endsAt.getTime() - now.getTime() > certificateNoticeDays * dayMs) return null
  const when = endsAt <= now ? `expired ${age(endsAt, now)} ago` : `expires in ${age(now, endsAt)}`
  return {
    problem: `Its certificate ${when}${endsAt <= now ? ': clients that verify it refuse to connect' : ''}.`,
    remedy: `while it runs, its owner can replace it: POST /v2/databases/${id}/credentials/reset, {"reset":"certificate"}`,
  }
}

/** Its owner was warned; a good snapshot ends that. */
function snapshotProblem({ database: { id, snapshot_warn_at: warnAt, lost_with: lostWith } }: DatabaseStory): Found {
  if (warnAt !== null || lostWith) return null
  return {
    problem: `No snapshot of it has succeeded for more than ${automaticSnapshotRules.warnDays} days.`,
    remedy: `see why the last ones failed: berth ops list --database ${id.slice(0, 8)}, berth ops explain; or create one: POST /v2/databases/${id}/snapshots`,
  }
}

function drillProblem({ triedDrill, preventedDrill, database: { id } }: DatabaseStory, now: Date): Found {
  const again = `berth databases drill ${id.slice(0, 8)}`
  if (triedDrill?.outcome === 'failed')
    return {
      problem: `Its snapshot could not be restored in the drill that ended ${since(triedDrill.ended_at, now)}: ${triedDrill.reason}`,
      remedy: `create a new snapshot (POST /v2/databases/${id}/snapshots), then: ${again}`,
    }
  if (!preventedDrill) return null
  const { host_id: hostId, ended_at: endedAt, reason } = preventedDrill
  return {
    problem: `No drill of it has succeeded for a long time: the one that ended ${since(endedAt, now)} could not test its snapshot on host ${hostId}: ${reason}`,
    remedy: `remove the cause, then: ${again}`,
  }
}

export const megabytes = (bytes: number): string => `${Math.round(bytes / MiB)} MB`
