import test from 'ava'
import { estimateText, estimateTokens } from '../../../policy/ai/tokens.ts'

test('a text is estimated by its characters', t => {
  t.is(estimateText(''), 0)
  t.is(estimateText('a'), 1)
  t.is(estimateText('a'.repeat(1000)), 270)
  t.is(estimateText('\n'.repeat(1000)), 270)
  for (const letter of ['世', 'か', 'カ', '한', '。', '，']) t.is(estimateText(letter.repeat(1000)), 600, letter)
  for (const letter of ['é', 'ж', 'ע', '\u0080', '\u2e7f', '\ufb00'])
    t.is(estimateText(letter.repeat(1000)), 500, letter)
  t.is(estimateText('🙂'.repeat(1000)), 1000, 'two halves')
  t.is(estimateText(`${'a'.repeat(100)}${'世'.repeat(100)}${'é'.repeat(100)}`), 137)
})

test('a prompt is its messages, their calls, and its functions', t => {
  const content = 'a'.repeat(1000)
  t.is(estimateTokens([]), 0)
  t.is(estimateTokens([{ role: 'user', content }]), 274)
  t.is(
    estimateTokens([
      { role: 'user', content },
      { role: 'tool', content, tool_call_id: 'a'.repeat(100) },
    ]),
    575,
  )
  const tool_calls = [
    { id: 'a'.repeat(100), type: 'function' as const, function: { name: 'a'.repeat(50), arguments: 'a'.repeat(50) } },
  ]
  t.is(estimateTokens([{ role: 'assistant', content: null, tool_calls }]), 73)
  const call = { id: 'a', type: 'function' as const, function: { name: 'f', arguments: '{}' } }
  const calling = { role: 'assistant' as const, content: null, tool_calls: Array(128).fill(call) }
  t.true(estimateTokens(Array(100).fill(calling)) > 200_000, 'small calls are no way around the window')
  const tool = { type: 'function' as const, function: { name: 'a'.repeat(89) } }
  t.is(JSON.stringify(tool.function).length, 100)
  t.is(estimateTokens([], [tool, tool]), 74)
})

test('an estimate grows with every part, so that two parts never cost less than one', t => {
  const text = 'Uma frase, 一句话, and one more. 🙂'
  for (let at = 0; at < text.length; at++)
    t.true(estimateText(text.slice(0, at + 1)) >= estimateText(text.slice(0, at)))
})
