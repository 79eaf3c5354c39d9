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

/**
 * Each agent with the application that brings it, in the order of reading: the most frequent one of every application, then the second of
 * every application, so that none with a flood of new ones takes the reading from others.
 */
const inTurns = `
  select agent, arg_min(app, turn) from (
    select app, value as agent, row_number() over (partition by app order by n desc, value) as turn
    from arrived where kind = 'agent')
  group by agent order by min(turn), agent`

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

  /** Reads the agents in the temporary table `arrived`, whose requests are of a day. */
  async read(day: string): Promise<SliceAgents> {
    const known = await this.#of(day)
    const pairs = (await this.#rows(inTurns)) as [string, string][]
    const texts = new Map<string, Numbered>()
    const kinds = new Map<string, Numbered>()
    const brought = new Map<string, number>()
    const added: Added[] = []
    const numbered = (agent: string | null, traits: AgentTraits): Numbered => {
      const id = known.lastId + added.length + 1
      added.push({ id, agent, ...traits })
      return { id, bot: traits.bot }
    }
    const numberOf = (agent: string, app: string): Numbered => {
      const present = known.texts.get(agent)
      if (present) return present
      const traits = this.#reader.traitsOf(agent)
      if (!traits) return { id: unreadAgent, bot: null }
      const ofApp = (known.brought.get(app) ?? 0) + (brought.get(app) ?? 0)
      if (known.texts.size + texts.size < this.#max.perDay && ofApp < this.#max.perApp) {
        brought.set(app, (brought.get(app) ?? 0) + 1)
        const ofText = numbered(agent, traits)
        texts.set(agent, ofText)
        return ofText
      }
      const bounded = boundedTraits(traits)
      const kind = kindOf(bounded)
      const ofKind = known.kinds.get(kind) ?? kinds.get(kind) ?? numbered(null, bounded)
      kinds.set(kind, ofKind)
      return ofKind
    }
    const rows = pairs.map(([agent, app]) => ({ agent, ...numberOf(agent, app) }))
    return {
      rows,
      added,
      stored() {
        for (const [agent, number] of texts) known.texts.set(agent, number)
        for (const [kind, number] of kinds) known.kinds.set(kind, number)
        for (const [app, count] of brought) known.brought.set(app, (known.brought.get(app) ?? 0) + count)
        known.lastId += added.length
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
    for (const row of await this.#rows(`select id, agent, device, os, browser, bot from "${day}".agents`)) {
      const [id, agent, device, os, browser, bot] = row as [number, string | null, string, string, string, string]
      if (agent === null) agents.kinds.set(kindOf({ device, os, browser, bot }), { id, bot })
      else agents.texts.set(agent, { id, bot })
      agents.lastId = Math.max(agents.lastId, id)
    }
    return agents
  }

  async #rows(sql: string): Promise<unknown[][]> {
    return (await this.#connection.runAndReadAll(sql)).getRowsJS()
  }
}
