/*
 * settings: what attach.js knows better than the environment: {socket, service}, each a text or undefined.
 */
'use strict';

module.exports = {socket: undefined, service: undefined};
