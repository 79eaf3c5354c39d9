import { z } from 'zod'
import type { Plan } from '../../../policy/accounts/plans.ts'
import { modelName } from '../../../policy/ai/chat-limits.ts'
import { CodedError } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { gateway } from './gateway.ts'

const model = z.object({
  id: z.literal(modelName),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  context_window: z.int().describe('Tokens of messages and tools, by the plan of the caller.'),
  max_output_tokens: z.int(),
})

/** The only model. Its creation time is unknown here, but clients require one. */
const shownTo = (plan: Plan): z.input<typeof model> => ({
  id: modelName,
  object: 'model',
  created: 0,
  owned_by: 'berth',
  context_window: plan.aiContextTokens,
  max_output_tokens: plan.aiOutputTokens,
})

/** Contract 13.9, our addition: most chat programs ask for it first. */
export const listModels = endpoint({
  ...gateway,
  name: 'ai.models',
  method: 'GET',
  path: '/v2/ai/models',
  summary: 'List the models',
  response: z.object({ object: z.literal('list'), data: z.array(model) }),
  async handle({ caller: { plan } }) {
    return { object: 'list' as const, data: [shownTo(plan)] }
  },
})

/** Contract 13.9. */
export const getModel = endpoint({
  ...gateway,
  name: 'ai.model',
  method: 'GET',
  path: '/v2/ai/models/{model}',
  summary: 'Show a model',
  response: model,
  errors: [...gateway.errors, 'NOT_FOUND'],
  async handle({ caller: { plan }, exchange }) {
    if (exchange.path.model !== modelName) throw new CodedError('NOT_FOUND', `The only model is ${modelName}.`)
    return shownTo(plan)
  },
})
