import Bowser from 'bowser'
import { isbot } from 'isbot'
import { intake, stands, textCaps } from '../../policy/network/analytics-terms.ts'
import { botCategory } from '../../policy/network/bots.ts'

/** What the text of an agent reveals about it. */
export interface AgentTraits {
  /** `desktop`, `mobile`, `tablet`, `tv`, `bot` or `Unknown`. */
  device: string
  os: string
  browser: string
  /** The category of a bot; null for everyone else. */
  bot: string | null
}

const unknownAgent: AgentTraits = { device: stands.unknown, os: stands.unknown, browser: stands.unknown, bot: null }

/** Reads agents, whose texts are anybody's: remembers those it has read, and reads a bounded number of new ones in each second. */
export class AgentReader {
  readonly #cache = new Map<string, AgentTraits>()
  readonly #now: () => number
  #second = 0
  #read = 0

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** The traits of an agent, of which only the first 300 characters count; null when too many new ones came in this second. */
  traitsOf(text: string): AgentTraits | null {
    const agent = text.slice(0, textCaps.agent)
    const traits = this.#cache.get(agent) ?? (this.#mayRead() ? readAgent(agent) : null)
    if (!traits) return null
    // Those that were not seen for longest come first.
    this.#cache.delete(agent)
    this.#cache.set(agent, traits)
    if (this.#cache.size > intake.agents) this.#cache.delete(this.#cache.keys().next().value!)
    return traits
  }

  #mayRead(): boolean {
    const second = Math.floor(this.#now() / 1000)
    if (second !== this.#second) this.#read = 0
    this.#second = second
    return ++this.#read <= intake.newAgentsPerSecond
  }
}

const namedBrowsers: ReadonlySet<string> = new Set(Object.values(Bowser.BROWSER_MAP))

/** Traits that have a bounded number of values: the name of a browser that the agent made up is left out. */
export const boundedTraits = (traits: AgentTraits): AgentTraits =>
  namedBrowsers.has(traits.browser) ? traits : { ...traits, browser: stands.unknown }

/** Reads one agent; about 0.1 ms. */
export function readAgent(text: string): AgentTraits {
  if (text === '') return unknownAgent
  const { platform, os, browser } = Bowser.parse(text)
  const category = botCategory(text)
  const isBot = category !== null || isbot(text) || platform.type === 'bot'
  return {
    device: isBot ? 'bot' : (platform.type ?? stands.unknown),
    os: os.name ?? stands.unknown,
    browser: browser.name || stands.unknown,
    bot: isBot ? (category ?? stands.unverifiedBot) : null,
  }
}
