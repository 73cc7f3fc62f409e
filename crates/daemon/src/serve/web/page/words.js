export * from './words/session.js';
export * from './words/status.js';
export * from './words/text.js';
export * from './words/times.js';
