import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { type GeneratedText, PromptTooLong, type TextGenerator, type Turn } from './text-generator.ts'

type Token = number

/** What we use of node-llama-cpp. It is no dependency: `berth up --ai` installs it into the cache. */
interface Library {
  getLlama(options: object): Promise<{
    loadModel(options: { modelPath: string }): Promise<Model>
    dispose(): Promise<void>
  }>
}

interface Model {
  tokenize(text: string, specialTokens: boolean): Token[]
  detokenize(tokens: readonly Token[], specialTokens: boolean, lastTokens: readonly Token[]): string
  createContext(options: object): Promise<{ getSequence(): Sequence }>
}

interface Sequence {
  clearHistory(): Promise<void>
  evaluateWithoutGeneratingNewTokens(tokens: Token[]): Promise<void>
  evaluate(tokens: Token[], options: object): AsyncGenerator<Token, void>
}

/** Reading is slow, about 70 tokens in a second on a busy processor: this much is read in half a minute, and takes 50 MB. */
const contextTokens = 2048
const minAnswerTokens = 16
/** The library cannot interrupt what it reads at a time. */
const tokensAtATime = 64
/** The likeliest words only: a model as small as this one strays immediately. */
const topP = 0.9

export interface LlamaOptions {
  /** The folder in whose `node_modules` node-llama-cpp is. */
  libraryFolder: string
  /** A model of the family SmolLM2, in the format GGUF. */
  modelPath: string
  /** Threads that calculate. */
  threads: number
}

/** Loads a model; nothing is built or downloaded. Rejects when the library or the file is missing or does not fit this machine. */
export async function openLlama({ libraryFolder, modelPath, threads }: LlamaOptions) {
  const path = join(libraryFolder, 'node_modules/node-llama-cpp/dist/index.js')
  const { getLlama }: Library = await import(pathToFileURL(path).href)
  const llama = await getLlama({
    ...{ gpu: false, build: 'never', skipDownload: true, progressLogs: false, logLevel: 'error' },
    maxThreads: threads,
  })
  const model = await llama.loadModel({ modelPath })
  const context = await model.createContext({ contextSize: contextTokens, batchSize: tokensAtATime, threads })
  const sequence = context.getSequence()

  let current: Promise<unknown> = Promise.resolve()

  async function answer(...[request, onText, signal]: Parameters<TextGenerator['generate']>): Promise<GeneratedText> {
    const prompt = promptTokens(model, request.turns)
    const room = contextTokens - prompt.length
    if (room < minAnswerTokens) throw new PromptTooLong(prompt.length, contextTokens - minAnswerTokens)
    await sequence.clearHistory()
    const last = prompt.length - 1
    for (let at = 0; at < last; at += tokensAtATime) {
      signal.throwIfAborted()
      await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(at, Math.min(at + tokensAtATime, last)))
    }
    const max = Math.min(request.maxTokens, room)
    const text = new WholeCharacters(model)
    let completion = 0
    for await (const token of sequence.evaluate(prompt.slice(last), { temperature: request.temperature, topP })) {
      signal.throwIfAborted()
      completion++
      const piece = text.add(token)
      if (piece) onText(piece)
      if (completion === max) return { finish: 'length', usage: { prompt: prompt.length, completion } }
    }
    // The library ends by itself at the token that ends a message.
    return { finish: 'stop', usage: { prompt: prompt.length, completion } }
  }

  return {
    generate(...all: Parameters<TextGenerator['generate']>): Promise<GeneratedText> {
      const answered = answer(...all)
      current = answered.catch(ignoreError('the caller hears of it'))
      return answered
    },
    /** Once the answer in progress has ended, for which its signal has to abort: the library cannot be closed while it works. */
    async close(): Promise<void> {
      await current
      await llama.dispose()
    },
  }
}

/**
 * The conversation in the form that the model was trained with, but for the system message that it was trained to begin with: with that
 * it no longer knows the capital of France. Only our own marks are read as marks: texts cannot end a message.
 */
function promptTokens(model: Model, turns: readonly Turn[]): Token[] {
  const [start, end] = ['<|im_start|>', '<|im_end|>'].map(mark => model.tokenize(mark, true)) as [Token[], Token[]]
  return [
    ...turns.flatMap(({ role, content }) => [
      ...start,
      ...model.tokenize(`${role}\n${content}`, false),
      ...end,
      ...model.tokenize('\n', false),
    ]),
    ...start,
    ...model.tokenize('assistant\n', false),
  ]
}

/** Characters outside of ASCII have several tokens: none is handed over before its last one. */
class WholeCharacters {
  #open: Token[] = []
  #last: Token[] = []

  constructor(private readonly model: Model) {}

  /** The text that this token completes; empty when it completes none. */
  add(token: Token): string {
    this.#open.push(token)
    const text = this.model.detokenize(this.#open, false, this.#last)
    if (text.endsWith('\ufffd')) return ''
    this.#last = this.#open
    this.#open = []
    return text
  }
}
