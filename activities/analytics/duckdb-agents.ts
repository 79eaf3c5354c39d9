import type { DuckDBConnection } from '@duckdb/node-api'
import { type AgentReader, type AgentTraits, boundedTraits } from './agents.ts'

/** Number that stands for agents that were not read; there is no row of it. */
export const unreadAgent = 0

/** Days of which the numbers are in memory: around midnight slices of two take turns. */
const daysInMemory = 2

interface Numbered {
  id: number
  bot: string | null
}

type Added = AgentTraits & { id: number; agent: string | null }

/** Agents of a day that have a number: by their text or, past the texts that a day records, by their traits. */
interface DayAgents {
  texts: Map<string, Numbered>
  kinds: Map<string, Numbered>
  lastId: number
  /** Texts that each application has brought, since the process began. */
  brought: Map<string, number>
}

interface SliceAgents {
  /** One for each agent of the slice. */
  rows: (Numbered & { agent: string })[]
  /** Rows that the day does not have yet. */
  added: Added[]
  /** To be called once the day has them. */
  stored(): void
}

/** An agent of a slice, and how many of an application's requests have it. */
export interface ArrivedAgent {
  app: string
  agent: string
  count: number
}

/**
 * Each agent with the application that brings it, in the order of reading: the most frequent one of every application, then the second of
 * every application, so that none with a flood of new ones takes the reading from others.
 */
function inTurns(arrived: readonly ArrivedAgent[]): Map<string, string> {
  const turns = new Map<string, number>()
  const order = arrived
    .toSorted((one, other) => other.count - one.count || compared(one.agent, other.agent))
    .map(({ app, agent }) => {
      const turn = turns.get(app) ?? 0
      turns.set(app, turn + 1)
      return { app, agent, turn }
    })
    .sort((one, other) => one.turn - other.turn || compared(one.agent, other.agent) || compared(one.app, other.app))
  const apps = new Map<string, string>()
  for (const { app, agent } of order) if (!apps.has(agent)) apps.set(agent, app)
  return apps
}

const compared = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

const kindOf = ({ device, os, browser, bot }: AgentTraits): string => JSON.stringify([device, os, browser, bot])

/** Gives agents their numbers in a day. */
export class DuckDbAgents {
  readonly #connection: DuckDBConnection
  readonly #reader: Pick<AgentReader, 'traitsOf'>
  readonly #max: { perDay: number; perApp: number }
  readonly #days = new Map<string, DayAgents>()

  constructor(
    connection: DuckDBConnection,
    reader: Pick<AgentReader, 'traitsOf'>,
    max: { perDay: number; perApp: number },
  ) {
    this.#connection = connection
    this.#reader = reader
    this.#max = max
  }

  /** Gives numbers to the agents of a slice, whose requests are of a day. */
  async read(day: string, arrived: readonly ArrivedAgent[]): Promise<SliceAgents> {
    const dayAgents = await this.#of(day)
    const texts = new Map<string, Numbered>()
    const kinds = new Map<string, Numbered>()
    const brought = new Map<string, number>()
    const added: Added[] = []
    const numbered = (agent: string | null, traits: AgentTraits): Numbered => {
      const id = dayAgents.lastId + added.length + 1
      added.push({ id, agent, ...traits })
      return { id, bot: traits.bot }
    }
    const numberOf = (agent: string, app: string): Numbered => {
      const present = dayAgents.texts.get(agent)
      if (present) return present
      const traits = this.#reader.traitsOf(agent)
      if (!traits) return { id: unreadAgent, bot: null }
      const ofApp = (dayAgents.brought.get(app) ?? 0) + (brought.get(app) ?? 0)
      if (dayAgents.texts.size + texts.size < this.#max.perDay && ofApp < this.#max.perApp) {
        brought.set(app, (brought.get(app) ?? 0) + 1)
        const ofText = numbered(agent, traits)
        texts.set(agent, ofText)
        return ofText
      }
      const bounded = boundedTraits(traits)
      const kind = kindOf(bounded)
      const ofKind = dayAgents.kinds.get(kind) ?? kinds.get(kind) ?? numbered(null, bounded)
      kinds.set(kind, ofKind)
      return ofKind
    }
    const rows = [...inTurns(arrived)].map(([agent, app]) => ({ agent, ...numberOf(agent, app) }))
    return {
      rows,
      added,
      stored() {
        for (const [agent, number] of texts) dayAgents.texts.set(agent, number)
        for (const [kind, number] of kinds) dayAgents.kinds.set(kind, number)
        for (const [app, count] of brought) dayAgents.brought.set(app, (dayAgents.brought.get(app) ?? 0) + count)
        dayAgents.lastId += added.length
      },
    }
  }

  /** Forgets a day that was removed. */
  forget(day: string): void {
    this.#days.delete(day)
  }

  async #of(day: string): Promise<DayAgents> {
    const agents = this.#days.get(day) ?? (await this.#load(day))
    this.#days.delete(day)
    this.#days.set(day, agents)
    if (this.#days.size > daysInMemory) this.#days.delete(this.#days.keys().next().value!)
    return agents
  }

  async #load(day: string): Promise<DayAgents> {
    const agents: DayAgents = { texts: new Map(), kinds: new Map(), lastId: unreadAgent, brought: new Map() }
    const stored = await this.#connection.runAndReadAll(
      `select id, agent, device, os, browser, bot from "${day}".agents`,
    )
    for (const row of stored.getRowsJS()) {
      const [id, agent, device, os, browser, bot] = row as [number, string | null, string, string, string, string]
      if (agent === null) agents.kinds.set(kindOf({ device, os, browser, bot }), { id, bot })
      else agents.texts.set(agent, { id, bot })
      agents.lastId = Math.max(agents.lastId, id)
    }
    return agents
  }
}
