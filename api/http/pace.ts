import type { IncomingMessage } from 'node:http'
import { minPace } from '../../policy/body-budgets.ts'

/** Calls `slow` when too little came in of a body that is not complete; returns how to stop watching. */
export function keepPace(
  request: Pick<IncomingMessage, 'socket' | 'complete'>,
  slow: () => void,
  { bytesPerSecond, overSeconds }: { bytesPerSecond: number; overSeconds: number } = minPace,
): () => void {
  const { socket } = request
  let seen = socket.bytesRead
  const timer = setInterval(() => {
    if (!request.complete && socket.bytesRead - seen < bytesPerSecond * overSeconds) slow()
    seen = socket.bytesRead
  }, overSeconds * 1000)
  return () => clearInterval(timer)
}
