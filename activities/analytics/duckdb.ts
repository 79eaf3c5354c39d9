import { Busy, intake, rollups } from '../../policy/network/analytics-terms.ts'
import type { AddressReader } from './addresses.ts'
import { AgentReader } from './agents.ts'
import { DuckDbAgents } from './duckdb-agents.ts'
import { DuckDbDays } from './duckdb-days.ts'
import { answerErrors } from './duckdb-errors.ts'
import { DuckDbIntake } from './duckdb-intake.ts'
import { answerLogs } from './duckdb-log-lines.ts'
import { answerPerformance } from './duckdb-performance.ts'
import { DuckDbRollups } from './duckdb-rollups.ts'
import { type AccountOf, withoutOthers } from './duckdb-shares.ts'
import { Statements } from './duckdb-source.ts'
import { answerTraffic } from './duckdb-traffic.ts'
import type { Analytics, Answers, Intake, Question } from './port.ts'

export interface DuckDbOptions {
  /** A folder of its own, which nothing else writes to. */
  folder: string
  addresses: AddressReader
  /** Receives what was wrong with a day whose file is no database any more, and was set aside. */
  onBroken(day: string, error: unknown): void
  agents?: Pick<AgentReader, 'traitsOf'>
  /** The account of an application, where it is known. */
  accountOf?: AccountOf
  /** Past its share of texts the requests of an application are stored without them, past that of requests they are only counted. */
  shares?: Parameters<typeof withoutOthers>[0]
  /** Texts of agents that a day records, in all and of one application. */
  agentTexts?: { perDay: number; perApp: number }
  rollups?: Readonly<Record<keyof typeof rollups, number>>
}

/** The engine with its files of days: takes in lines, answers questions, and removes days. */
export interface DuckDb extends Analytics, Intake {
  /** Oldest first. */
  days(): string[]
  remove(day: string): Promise<void>
  /** Sums the next run of rows, so that questions without filters need not read them: all of it or, when it throws, nothing. Resolves to whether there was one. Not while a slice is taken in. */
  rollUp(): Promise<boolean>
  /** Removes files that were set aside as broken: those of earlier days than one, or all. */
  removeBroken(before?: string): Promise<void>
  /** Bytes of its files. */
  size(): Promise<number>
  /** Whether after this error everything fails until the engine is opened again, as after a write to a full disk. */
  isBroken(error: unknown): boolean
  close(): Promise<void>
}

const answers = { analytics: answerTraffic, errors: answerErrors, logs: answerLogs, performance: answerPerformance }

/** Opens DuckDB on a folder with one file per day of UTC. Only one process may have it open. */
export async function openDuckDb({
  folder,
  addresses,
  onBroken,
  accountOf = () => undefined,
  shares = {},
  agents = new AgentReader(),
  agentTexts = { perDay: intake.agentsPerDay, perApp: intake.agentsPerAppAndDay },
  rollups: sizes = rollups,
}: DuckDbOptions): Promise<DuckDb> {
  const days = await DuckDbDays.open(folder, onBroken)
  const connection = await days.connect()
  const readers = { agents: new DuckDbAgents(connection, agents, agentTexts), addresses, accountOf }
  const slices = new DuckDbIntake(days, connection, readers, withoutOthers(shares))
  const sums = new DuckDbRollups(days, connection, sizes)
  const running = new Set<Promise<unknown>>()

  async function ask<Q extends Question>(
    question: Q,
    signal = new AbortController().signal,
  ): Promise<Answers[Q['kind']]> {
    const connection = await days.connect()
    const interrupt = () => connection.interrupt()
    signal.addEventListener('abort', interrupt)
    try {
      const answer = answers[question.kind] as (...given: unknown[]) => Promise<Answers[Q['kind']]>
      return await answer(question, days.catalogsOf(question.window), new Statements(connection, signal))
    } catch (error) {
      throw signal.aborted || isLoad(error) ? new Busy('The question took too long, or too much memory.') : error
    } finally {
      signal.removeEventListener('abort', interrupt)
      connection.closeSync()
    }
  }

  return {
    ask: (question, signal) => tracked(running, ask(question, signal)),
    progressOf: day => slices.progressOf(day),
    async take(slice, onlyCounts) {
      const count = await slices.take(slice, onlyCounts).catch(error => {
        sums.forget(slice.day) // it may have been stored
        throw error
      })
      sums.added(slice.day, count)
      return count
    },
    rollUp: () => sums.next(),
    days: () => days.list(),
    async remove(day) {
      slices.forget(day)
      sums.forget(day)
      await days.remove(day)
    },
    removeBroken: before => days.removeBroken(before),
    size: () => days.size(),
    isBroken: error => /FATAL|invalidated/i.test((error as Error).message),
    async close() {
      await Promise.allSettled(running)
      slices.close()
      days.close()
    },
  }
}

/** The bounds of the engine, or a day that was removed meanwhile: another try may succeed. */
const isLoad = (error: unknown): boolean => /^(Out of Memory|INTERRUPT|Catalog) Error/i.test((error as Error).message)

function tracked<T>(running: Set<Promise<unknown>>, work: Promise<T>): Promise<T> {
  running.add(work)
  return work.finally(() => running.delete(work))
}
