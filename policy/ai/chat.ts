/** A call of one of the caller's functions, as a model requests it. `arguments` is JSON text, which nobody here parses. */
export interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

/** One message of a conversation. */
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  /** Null only alongside `tool_calls`. */
  content: string | null
  tool_calls?: ToolCall[]
  /** The call that a message of the role `tool` answers. */
  tool_call_id?: string
}

/** A function that a model may call. */
export interface Tool {
  type: 'function'
  function: { name: string; description?: string; parameters?: object; strict?: boolean | null }
}

export type ToolChoice = 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } }

/** What a model is sent. */
export interface ChatRequest {
  messages: readonly ChatMessage[]
  tools?: readonly Tool[]
  toolChoice?: ToolChoice
  temperature?: number
  /** Of the answer, from 1. */
  maxTokens: number
  /** False: the model is offered no search, also where the platform has one. */
  webSearch?: boolean
}

/** Tokens of a call, as its model counted them, or as estimated where it did not. */
export interface TokenUsage {
  prompt: number
  completion: number
}

/** A model's whole answer. */
export interface Completion {
  content: string | null
  toolCalls: ToolCall[]
  /** `length`: `maxTokens` cut it off. */
  finish: 'stop' | 'length' | 'tool_calls'
  usage: TokenUsage
}
