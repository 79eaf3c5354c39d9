import type { IncomingMessage } from 'node:http'
import { minPace } from '../../policy/body-budgets.ts'

/** Calls `slow` when a body that is not complete arrives too slowly; returns a function that stops the watch. */
export function watchPace(
  request: Pick<IncomingMessage, 'socket' | 'complete'>,
  slow: () => void,
  { bytesPerSecond, overSeconds }: { bytesPerSecond: number; overSeconds: number } = minPace,
): () => void {
  const { socket } = request
  let bytesBefore = socket.bytesRead
  const timer = setInterval(() => {
    if (!request.complete && socket.bytesRead - bytesBefore < bytesPerSecond * overSeconds) slow()
    bytesBefore = socket.bytesRead
  }, overSeconds * 1000)
  return () => clearInterval(timer)
}
