import type { AiSettings } from '../../policy/ai/ai-settings.ts'
import { slotsOfProcess, type UpstreamTimes } from '../../policy/ai/upstreams.ts'
import { searxngSearch } from '../web-search/searxng.ts'
import { httpUpstream } from './http-upstream.ts'
import type { CountTokens, LanguageModel } from './port.ts'
import { httpTokenizer } from './tokenizer.ts'
import type { SlotOptions } from './upstream-slots.ts'
import { type ModelLog, upstreamsModel } from './upstreams.ts'
import { withSearch } from './with-search.ts'

interface ModelOptions {
  /** API processes of this machine, which share the slots. */
  processes: number
  log: ModelLog
  /** Tests use shorter times. */
  times?: UpstreamTimes
  slots?: Omit<SlotOptions, 'atOnce'>
}

/** The model of the settings: its upstreams over HTTP, and the web search if there is one. Without upstreams each call is `unavailable`. */
export function openLanguageModel(settings: AiSettings, { processes, log, times, slots }: ModelOptions): LanguageModel {
  const upstreams = settings.upstreams.map(upstream => httpUpstream(upstream, times))
  const model = upstreamsModel(upstreams, log, { ...slots, atOnce: slotsOfProcess(settings.concurrency, processes) })
  return settings.searchUrl ? withSearch(model, searxngSearch(settings.searchUrl), log) : model
}

/** Null when prompts are estimated only. */
export function openTokenizer(settings: AiSettings): CountTokens | null {
  return settings.tokenizeUrl === null ? null : httpTokenizer(settings.tokenizeUrl, settings)
}
