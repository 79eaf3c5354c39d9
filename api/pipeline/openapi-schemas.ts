import { z } from 'zod'

export type Json = Record<string, unknown>

/** One of several alternatives for a body: JSON Schema of an object that does not mention the other fields. */
interface Form {
  properties?: Json
  required?: string[]
}

/**
 * JSON Schema of a zod schema. `openapi` in the meta of a field, a JSON or zod schema, replaces the field's own; an object with
 * `choices` must match one form of each. No meta leaks as a keyword. An answer may gain fields (contract 1.9), so its objects are open
 * unless they are declared as strict.
 */
export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override({ zodSchema, jsonSchema }) {
      if (io === 'output' && !isStrict(zodSchema)) delete jsonSchema.additionalProperties
      const { openapi, choices, ...rest } = jsonSchema as Json & { openapi?: Json | z.ZodType; choices?: Form[][] }
      const shown = choices ? completed(rest, choices) : shownAs(openapi, io)
      if (!shown) return
      for (const key of Object.keys(jsonSchema)) delete (jsonSchema as Json)[key]
      Object.assign(jsonSchema, shown)
    },
  })
  return json
}

const isStrict = ({ _zod }: z.core.$ZodTypes): boolean => _zod.def.type !== 'object' || _zod.def.catchall !== undefined

function shownAs(openapi: Json | z.ZodType | undefined, io: 'input' | 'output'): Json | undefined {
  return openapi instanceof z.ZodType ? schemaOf(openapi, io) : openapi
}

/** Fields that a form describes are not described twice. */
function completed(object: Json & Form, choices: Form[][]): Json {
  const described = new Set(choices.flat().flatMap(({ properties = {} }) => Object.keys(properties)))
  const others = Object.entries(object.properties ?? {}).filter(([name]) => !described.has(name))
  const required = object.required?.filter(name => !described.has(name))
  return {
    ...object,
    properties: Object.fromEntries(others),
    ...(required && { required }),
    allOf: choices.map(forms => ({ anyOf: forms })),
  }
}
