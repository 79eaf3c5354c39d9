import { deadlineSignal, unlessAborted } from '../../lib/async/timeout.ts'
import { storable } from '../../lib/storable-text.ts'
import type { ChatMessage, ChatRequest, Completion, TokenUsage, ToolCall } from '../../policy/ai/chat.ts'
import { offersSearch, searchTool, webSearchLimits } from '../../policy/ai/web-search-limits.ts'
import type { WebSearch } from '../web-search/port.ts'
import { type CompletionOptions, type LanguageModel, ModelFailure } from './port.ts'
import type { ModelLog } from './upstreams.ts'

const name = searchTool.function.name
const nothingFound = 'No results.'

/**
 * Lets a model search the web before it answers. Callers see neither the searches nor their function, only the usage of all rounds
 * together, which stays within their ceiling of output.
 */
export function withSearch(model: LanguageModel, web: WebSearch, log: ModelLog): LanguageModel {
  return {
    async complete(request, options) {
      if (!offersSearch(request)) return model.complete(request, options)
      const used: TokenUsage = { prompt: 0, completion: 0 }
      const messages = [...request.messages]
      for (let round = 1; ; round++) {
        const left = request.maxTokens - used.completion
        if (left < 1) return { content: '', toolCalls: [], finish: 'length', usage: used }
        const isLast = round === webSearchLimits.rounds
        const answer = await model
          .complete({ ...request, ...toolsOf(request, isLast), messages, maxTokens: left }, options)
          .catch(error => {
            if (round === 1) throw error
            // What was found may not fit into the window of the model, or no model had a place for it: it answers without.
            if (!hasNotBegun(error)) throw laterFailure(error, used)
            return model
              .complete({ ...request, maxTokens: left }, options)
              .catch(again => Promise.reject(laterFailure(again, used)))
          })
        used.prompt += answer.usage.prompt
        used.completion += answer.usage.completion
        const searches = answer.toolCalls.filter(isSearch)
        const isOver = isLast || answer.finish === 'length' || searches.length < answer.toolCalls.length
        if (searches.length === 0 || isOver) return { ...withoutSearches(answer), usage: used }
        messages.push(...(await searched(answer.content, searches, options)))
        if (options.signal.aborted) throw new ModelFailure('aborted', 'The call was aborted.', used)
      }
    },
    close: () => model.close(),
  }

  /** The turn of the model with its searches, and what each found. */
  async function searched(
    content: string | null,
    searches: ToolCall[],
    options: CompletionOptions,
  ): Promise<ChatMessage[]> {
    const messages = await Promise.all(
      searches.map(async (call, n): Promise<ChatMessage> => {
        const results = n < webSearchLimits.searches ? await find(queryOf(call), options) : nothingFound
        return { role: 'tool', tool_call_id: call.id, content: results }
      }),
    )
    return [{ role: 'assistant', content, tool_calls: searches }, ...messages]
  }

  /** A search that fails finds nothing: the model answers without it. */
  async function find(query: string, { signal, requestId }: CompletionOptions): Promise<string> {
    if (query === '' || signal.aborted) return nothingFound
    const deadline = deadlineSignal(webSearchLimits.timeoutMs, signal)
    try {
      const results = await unlessAborted(web.search(query, deadline), deadline)
      const texts = results
        .slice(0, webSearchLimits.results)
        .map(({ title, url, excerpt }) => `${title}\n${url}\n${excerpt}`)
      return texts.map(text => storable(text.slice(0, webSearchLimits.characters))).join('\n\n') || nothingFound
    } catch {
      log.warn({ requestId, reason: deadline.aborted ? 'late' : 'failed' }, 'a web search failed')
      return nothingFound
    }
  }
}

/** In the last round the caller's functions only, or none to choose from: servers want to know those that the conversation used. */
function toolsOf({ tools = [], toolChoice }: ChatRequest, isLast: boolean): Pick<ChatRequest, 'tools' | 'toolChoice'> {
  const choice = toolChoice && { toolChoice }
  if (!isLast) return { tools: [...tools, searchTool], ...choice }
  return tools.length > 0 ? { tools, ...choice } : { tools: [searchTool], toolChoice: 'none' }
}

const hasNotBegun = (error: unknown): boolean =>
  error instanceof ModelFailure && error.reason !== 'aborted' && !error.generated

const isSearch = (call: ToolCall): boolean => call.function.name === name

/** As the caller sees it, who has only functions of their own. */
function withoutSearches(answer: Completion): Completion {
  const toolCalls = answer.toolCalls.filter(call => !isSearch(call))
  if (toolCalls.length > 0 || answer.toolCalls.length === 0) return { ...answer, toolCalls }
  return { ...answer, toolCalls, content: answer.content ?? '', finish: answer.finish === 'length' ? 'length' : 'stop' }
}

/** What the earlier rounds used counts too, and a refusal of what the searches added is not the caller's mistake. */
function laterFailure(error: unknown, used: TokenUsage): unknown {
  if (!(error instanceof ModelFailure)) return error
  const { reason, generated = { prompt: 0, completion: 0 } } = error
  const all = { prompt: used.prompt + generated.prompt, completion: used.completion + generated.completion }
  return new ModelFailure(reason === 'refused' ? 'unavailable' : reason, error.message, all)
}

/** Empty for arguments of another form. */
function queryOf(call: ToolCall): string {
  try {
    const { query } = JSON.parse(call.function.arguments)
    return typeof query === 'string' ? storable(query).trim().slice(0, webSearchLimits.query) : ''
  } catch {
    return ''
  }
}
