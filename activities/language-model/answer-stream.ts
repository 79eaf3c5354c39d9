import { createParser } from 'eventsource-parser'
import { answerCaps } from '../../policy/ai/upstreams.ts'
import { type Answer, NoAnswer } from './answer.ts'

/** Reads an answer from the chunks of a response. Throws a `NoAnswer` for what is none. */
export interface AnswerReader {
  /** Returns whether the answer is complete: nothing that follows counts. */
  read(chunk: Uint8Array): boolean
  /** The response has ended. */
  end(): void
}

/** Server-Sent Events with an object each, up to `[DONE]` or the end after a reason to finish. */
export function eventReader(answer: Answer): AnswerReader {
  let bytes = 0
  let isDone = false
  const parser = createParser({
    onEvent: ({ data }) => {
      if (isDone || data === '') return
      if (data.trim() === '[DONE]') isDone = true
      else answer.take(parsed(data))
    },
    maxBufferSize: answerCaps.json,
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') throw new NoAnswer('an event that is too large')
    },
  })
  const decoder = new TextDecoder()
  return {
    read(chunk) {
      bytes += chunk.length
      if (bytes > answerCaps.stream) throw new NoAnswer('too large')
      parser.feed(decoder.decode(chunk, { stream: true }))
      return isDone
    },
    end() {
      // A last event without the empty line after it.
      if (!isDone) parser.feed(`${decoder.decode()}\n\n`)
      if (!isDone && !answer.isFinished) throw new NoAnswer('cut off')
    },
  }
}

/** One object, as servers answer that do not stream. */
export function jsonReader(answer: Answer): AnswerReader {
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    read(chunk) {
      bytes += chunk.length
      if (bytes > answerCaps.json) throw new NoAnswer('too large')
      chunks.push(chunk)
      return false
    },
    end() {
      answer.take(parsed(Buffer.concat(chunks).toString('utf8')))
      if (!answer.isFinished) throw new NoAnswer('no reason to finish')
    },
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new NoAnswer('not JSON')
  }
}
