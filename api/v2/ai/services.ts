import type { ChatCalls } from './chat-calls.ts'

export interface AiServices {
  chatCalls: ChatCalls
}
